// metrics.jsonl: one JSON object a line, written with one system call each, without allocating.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace plimsoll {

class JsonLinesLog {
 public:
  // Opens for appending. With `keep_up_to` >= 0 lines whose "step" is larger are dropped first (a run resumed from an
  // older checkpoint repeats them); below 0 the file starts empty.
  JsonLinesLog(const std::filesystem::path& path, std::int64_t keep_up_to);
  ~JsonLinesLog();
  JsonLinesLog(const JsonLinesLog&) = delete;
  JsonLinesLog& operator=(const JsonLinesLog&) = delete;

  // `line` without the line feed. Throws EnvironmentError (disk full).
  void write(std::string_view line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace plimsoll
