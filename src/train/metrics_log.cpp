#include "train/metrics_log.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace plimsoll {
namespace {

// The lines of `path` that belong to steps up to `last`; torn lines are dropped.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last) {
  std::string kept;
  if (!std::filesystem::exists(path)) return kept;
  const std::string text = read_text_file(path);  // a stream would take a failure for the end
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line(text.data() + begin, end + 1 - begin);
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    if (object["step"].get<std::int64_t>() > last) continue;
    kept += line;
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
  iovec parts[2] = {{const_cast<char*>(line.data()), line.size()}, {&feed, 1}};
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t count = ::writev(descriptor_, parts, 2);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw EnvironmentError({.what = "cannot write to a log file",
                              .where = path_.string(),
                              .found = std::strerror(errno),
                              .remedy = "free some disk space, then continue with --resume-from-checkpoint latest"});
    }
    auto written = static_cast<std::size_t>(count);  // a disk that is nearly full takes a part
    for (iovec& part : parts) {
      const std::size_t done = std::min(written, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + done;
      part.iov_len -= done;
      written -= done;
    }
  }
}

}  // namespace plimsoll
