// Reads numbers of a TIFF structure in its byte order (TIFF 6.0, section 2), in a TIFF file or in other files' EXIF.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/file.h"

namespace plimsoll {

class TiffNumbers {
 public:
  // The structure begins at `base` in the file; its offsets count from there.
  explicit TiffNumbers(const InputFile& file, std::uint64_t base = 0)
      : file_(file), base_(base), big_(byte(0).value_or(0) == 'M') {}

  // Returns nothing beyond the end of the file.
  std::optional<std::uint64_t> at(std::uint64_t offset, int bytes) const {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      const auto next = byte(offset + static_cast<std::uint64_t>(big_ ? i : bytes - 1 - i));
      if (!next) return std::nullopt;
      value = value << 8 | *next;
    }
    return value;
  }

 private:
  std::optional<unsigned> byte(std::uint64_t offset) const {
    if (base_ + offset >= file_.size_bytes()) return std::nullopt;
    std::array<std::byte, 1> value{};
    file_.read_at(base_ + offset, value);
    return std::to_integer<unsigned>(value[0]);
  }
  const InputFile& file_;
  std::uint64_t base_;
  bool big_;
};

}  // namespace plimsoll
