// The lines of a text file, one at a time, so that memory grows with the longest line only.
//
//   LineReader lines("scan.tsv");
//   while (lines.next()) use(lines.number(), lines.text());
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  // Returns false after the last line. Throws DataError for a line of more than kLongest bytes.
  bool next();
  // Returns the line without its end, and without a byte order mark at the file's beginning.
  std::string_view text() const { return line_; }
  std::size_t number() const { return number_; }  // from 1
  // Returns "scan.tsv:17".
  std::string where() const;

  static constexpr std::size_t kLongest = std::size_t{16} << 20;

 private:
  InputFile file_;
  std::string chunk_, line_;
  std::size_t at_ = 0, number_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace plimsoll
