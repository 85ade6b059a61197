// A file of JSON lines, such as metrics.jsonl: each is written with one system call, without allocating.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

// A number in such a line: null if it is not finite.
class JsonNumber {
 public:
  explicit JsonNumber(double value);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_;
};

class JsonLinesLog {
 public:
  // Opens for appending. With `keep_up_to` >= 0 lines whose "step" is larger are dropped first (a run resumed from an
  // older checkpoint repeats them); below 0 the file starts empty. Throws EnvironmentError, also if another process
  // writes the file.
  JsonLinesLog(const std::filesystem::path& path, std::int64_t keep_up_to);

  // `line` has no line feed. Throws EnvironmentError (disk full).
  void write(std::string_view line);

 private:
  std::optional<AppendedFile> file_;
};

}  // namespace plimsoll
