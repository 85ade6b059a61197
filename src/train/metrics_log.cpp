#include "train/metrics_log.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll {
namespace {

// The lines of `path` that belong to steps up to `last`; torn lines are dropped.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    if (object["step"].get<std::int64_t>() > last) continue;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

JsonLinesLog::JsonLinesLog(const std::filesystem::path& path, std::int64_t keep_up_to) : path_(path) {
  write_text_file(path, keep_up_to >= 0 ? lines_up_to(path, keep_up_to) : std::string());
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw EnvironmentError({.what = "cannot open a log file", .where = path.string(), .found = std::strerror(errno)});
  }
}

JsonLinesLog::~JsonLinesLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void JsonLinesLog::write(std::string_view line) {
  char feed = '\n';
  const iovec parts[2] = {{const_cast<char*>(line.data()), line.size()}, {&feed, 1}};
  if (::writev(descriptor_, parts, 2) != static_cast<ssize_t>(line.size() + 1)) {
    throw EnvironmentError({.what = "cannot write to a log file",
                            .where = path_.string(),
                            .found = std::strerror(errno),
                            .remedy = "free some disk space, then continue with --resume-from-checkpoint latest"});
  }
}

}  // namespace plimsoll
