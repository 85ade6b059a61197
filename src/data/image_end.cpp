#include "data/image_end.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/image_bmp.h"
#include "data/image_webp.h"
#include "data/tiff_numbers.h"

namespace plimsoll {
namespace {

// Returns whether the bytes occur in the last ones of a file.
bool ends_with_mark(const InputFile& file, std::string_view mark) {
  std::array<char, 4096> tail{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(tail.size(), file.size_bytes()));
  file.read_at(file.size_bytes() - count, std::as_writable_bytes(std::span(tail.data(), count)));
  return std::string_view(tail.data(), count).find(mark) != std::string_view::npos;
}

// Returns a number of most significant byte first; nothing beyond the file's end.
std::optional<std::uint64_t> number_at(const InputFile& file, std::uint64_t offset, std::size_t count) {
  std::array<std::byte, 8> bytes{};
  if (count > file.size_bytes() || offset > file.size_bytes() - count) return std::nullopt;
  file.read_at(offset, std::span(bytes).first(count));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// Phones put a film or notes behind a picture's end. A mark before the first scan is that of a preview.
bool jpeg_ends_too_early(const InputFile& file) {
  constexpr std::string_view kEnd = "\xFF\xD9";
  if (ends_with_mark(file, kEnd)) return false;
  std::uint64_t at = 2;
  while (true) {
    const auto marker = number_at(file, at, 2), length = number_at(file, at + 2, 2);
    if (!marker || !length || *marker >> 8 != 0xFF) return true;
    if (*marker == 0xFFDA) break;
    at += *marker == 0xFFFF ? 1 : 2 + *length;  // the first is a byte that fills up
  }
  std::vector<char> part(std::size_t{1} << 16);
  while (at < file.size_bytes()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), file.size_bytes() - at));
    file.read_at(at, std::as_writable_bytes(std::span(part).first(count)));
    if (std::string_view(part.data(), count).find(kEnd) != std::string_view::npos) return false;
    if (count < part.size()) break;
    at += count - 1;  // the mark may lie across two parts
  }
  return true;
}

bool png_ends_too_early(const InputFile& file) {
  if (ends_with_mark(file, "IEND")) return false;
  constexpr std::uint64_t kEnd = 0x49454E44;
  std::uint64_t at = 8;
  while (true) {
    const auto length = number_at(file, at, 4), kind = number_at(file, at + 4, 4);
    if (!length || !kind) return true;
    if (*kind == kEnd) return false;
    at += 12 + *length;
  }
}

// Reads the values of one entry of a TIFF directory; nullopt if they lie beyond the end of the file.
std::optional<std::vector<std::uint64_t>> entry_values(const TiffNumbers& tiff, std::uint64_t entry) {
  constexpr std::uint64_t kShort = 3, kMost = 65536;
  const auto type = tiff.at(entry + 2, 2), count = tiff.at(entry + 4, 4);
  if (!type || !count) return std::nullopt;
  const int bytes = *type == kShort ? 2 : 4;
  const bool within = *count * static_cast<std::uint64_t>(bytes) <= 4;
  const auto place = within ? entry + 8 : tiff.at(entry + 8, 4);
  if (!place) return std::nullopt;
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < std::min(*count, kMost); ++i) {
    const auto value = tiff.at(*place + i * static_cast<std::uint64_t>(bytes), bytes);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

bool tiff_ends_too_early(const InputFile& file) {
  constexpr std::uint64_t kClassic = 42, kStripOffsets = 273, kStripBytes = 279, kTileOffsets = 324, kTileBytes = 325;
  const TiffNumbers tiff(file);
  if (tiff.at(2, 2) != kClassic) return false;
  const auto directory = tiff.at(4, 4);
  const auto entries = directory ? tiff.at(*directory, 2) : std::nullopt;
  if (!entries) return true;
  std::vector<std::uint64_t> offsets, lengths;
  for (std::uint64_t i = 0; i < *entries; ++i) {
    const std::uint64_t entry = *directory + 2 + 12 * i;
    const auto tag = tiff.at(entry, 2);
    if (!tag) return true;
    const bool offset = *tag == kStripOffsets || *tag == kTileOffsets;
    if (!offset && *tag != kStripBytes && *tag != kTileBytes) continue;
    auto values = entry_values(tiff, entry);
    if (!values) return true;
    (offset ? offsets : lengths) = std::move(*values);
  }
  for (std::size_t i = 0; i < std::min(offsets.size(), lengths.size()); ++i) {
    if (offsets[i] + lengths[i] > file.size_bytes()) return true;
  }
  return false;
}

// Pixels that are not compressed take as many bytes as the header says, each row a multiple of four.
bool bmp_ends_too_early(const InputFile& file) {
  const std::optional<BmpHeader> header = read_bmp_header(file);
  return header &&
         file.size_bytes() < header->pixels_at + header->row_bytes() * static_cast<std::uint64_t>(header->height);
}

}  // namespace

bool ends_too_early(const InputFile& file, const ImageInfo& info) {
  if (info.format == "png") return png_ends_too_early(file);
  if (info.format == "jpeg") return jpeg_ends_too_early(file);
  if (info.format == "tiff") return tiff_ends_too_early(file);
  if (info.format == "bmp") return bmp_ends_too_early(file);
  if (info.format == "webp") {
    const std::optional<WebpContainer> webp = read_webp_container(file);
    return !webp || file.size_bytes() < webp->bytes;
  }
  if (info.format != "pnm") return false;
  // Pixels written as text take more than these bytes; the header takes at least seven.
  const auto bits = static_cast<std::uint64_t>(info.width) * static_cast<std::uint64_t>(info.bits_per_sample) *
                    static_cast<std::uint64_t>(info.samples_per_pixel);
  return file.size_bytes() < (bits + 7) / 8 * static_cast<std::uint64_t>(info.height) + 7;
}

bool begins_like_tiff(const InputFile& file) {
  const TiffNumbers tiff(file);
  const auto order = tiff.at(0, 2);
  return (order == 0x4949 || order == 0x4D4D) && tiff.at(2, 2) == 42;
}

}  // namespace plimsoll
