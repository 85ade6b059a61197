// Reads numbers of a TIFF structure in its byte order (TIFF 6.0, section 2), in a TIFF file or in other files' EXIF.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/file.h"

namespace plimsoll {

inline constexpr std::uint64_t kTiffOrientation = 274, kTiffSamples = 277, kTiffExtraSamples = 338;

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

// Returns where the directory of a page begins, counted from 0; nothing if there is none, or if this is no TIFF.
inline std::optional<std::uint64_t> tiff_directory(const TiffNumbers& tiff, int page) {
  const auto order = tiff.at(0, 2);
  if ((order != 0x4949 && order != 0x4D4D) || tiff.at(2, 2) != 42) return std::nullopt;
  std::optional<std::uint64_t> directory = tiff.at(4, 4);
  for (; page > 0 && directory; --page) {
    const auto entries = tiff.at(*directory, 2);
    directory = entries ? tiff.at(*directory + 2 + 12 * *entries, 4) : std::nullopt;
  }
  return directory == 0 ? std::nullopt : directory;
}

// Returns the first value of an entry of 16-bit numbers; nothing if the directory has none with this tag.
inline std::optional<std::uint64_t> tiff_short(const TiffNumbers& tiff, std::uint64_t directory, std::uint64_t tag) {
  const auto entries = tiff.at(directory, 2);
  for (std::uint64_t i = 0; i < entries.value_or(0); ++i) {
    const std::uint64_t entry = directory + 2 + 12 * i;
    const auto found = tiff.at(entry, 2);
    if (!found) return std::nullopt;
    if (found == tag) return tiff.at(entry + 8, 2);
  }
  return std::nullopt;
}

}  // namespace plimsoll
