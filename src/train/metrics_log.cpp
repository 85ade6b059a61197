#include "train/metrics_log.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

// Returns the lines of `path` without a step, or with one up to `last`; incomplete lines are dropped.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t last) {
  std::string kept;
  if (!std::filesystem::exists(path)) return kept;
  const std::string text = read_text_file(path);  // a stream would mistake a read error for the end
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line(text.data() + begin, end + 1 - begin);
    const auto object = parse_json(line);
    if (!object.is_object()) continue;
    const auto step = object.find("step");
    if (step != object.end() && (!step->is_number_integer() || step->get<std::int64_t>() > last)) continue;
    kept += line;
  }
  return kept;
}

}  // namespace

JsonNumber::JsonNumber(double value) : text_() {
  std::isfinite(value) ? fmt::format_to_n(text_.data(), text_.size() - 1, "{:.9g}", value)
                       : fmt::format_to_n(text_.data(), text_.size() - 1, "null");
}

JsonLinesLog::JsonLinesLog(const std::filesystem::path& path, std::int64_t keep_up_to) {
  AppendedFile::refuse_if_open(path);
  write_text_file(path, keep_up_to >= 0 ? lines_up_to(path, keep_up_to) : std::string());
  file_.emplace(path, false);
}

void JsonLinesLog::write(std::string_view line) { file_->write({line, "\n"}); }

}  // namespace plimsoll
