#include "data/image_bmp.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "data/image_jpeg.h"

namespace plimsoll {
namespace {

using Masks = std::array<std::uint32_t, 3>;
constexpr std::uint64_t kFileHeader = 14, kWindows3 = 40, kWithMasks = 52, kLongestHeader = 124;
constexpr std::uint64_t kPlain = 0, kBitFields = 3;
constexpr Masks k555{0x7C00, 0x3E0, 0x1F}, k565{0xF800, 0x7E0, 0x1F}, kBytes{0xFF0000, 0xFF00, 0xFF};

bool is_known(int bits, const Masks& masks) {
  if (bits == 16) return masks == k555 || masks == k565;
  if (bits == 24) return masks == kBytes;
  // Each channel is a byte of its own.
  const auto is_byte = [](std::uint32_t mask) { return std::popcount(mask) == 8 && std::countr_zero(mask) % 8 == 0; };
  return std::ranges::all_of(masks, is_byte) && (masks[0] | masks[1] | masks[2]) == masks[0] + masks[1] + masks[2];
}

class BmpRows final : public ImageRows {
 public:
  BmpRows(const std::filesystem::path& path, const BmpHeader& header)
      : ImageRows(static_cast<int>(header.width), static_cast<int>(header.height)),
        path_(path),
        file_(path),
        header_(header),
        row_(static_cast<std::size_t>(header.row_bytes())) {
    palette_.resize(4 * static_cast<std::size_t>(header_.colours));
    read(header_.colours_at, palette_);
    // Indices beyond the palette are black.
    if (header_.bits <= 8) palette_.resize(4 * (std::size_t{1} << header_.bits));
  }

  void next_row(std::span<std::uint8_t> out) override {
    check(next_ < height() && out.size() == 3 * static_cast<std::size_t>(width()), "a row of the image fits");
    const auto stored = static_cast<std::uint64_t>(header_.top_down ? next_ : height() - 1 - next_);
    ++next_;
    read(header_.pixels_at + stored * header_.row_bytes(), row_);
    for (std::size_t x = 0; x < static_cast<std::size_t>(width()); ++x) put(x, out.subspan(3 * x, 3));
  }
  bool damaged() const override { return false; }

 private:
  void read(std::uint64_t offset, std::span<std::uint8_t> out) const {
    if (out.size() > file_.size_bytes() || offset > file_.size_bytes() - out.size()) {
      throw broken_image(path_, "bmp", "the file ends too early");
    }
    file_.read_at(offset, std::as_writable_bytes(out));
  }

  void put(std::size_t x, std::span<std::uint8_t> out) const {
    const auto bits = static_cast<std::size_t>(header_.bits);
    if (bits <= 8) {
      // The leftmost pixel has the highest bits of its byte.
      const std::size_t at = x * bits, shift = 8 - bits - at % 8;
      const std::size_t index = row_[at / 8] >> shift & ((1U << bits) - 1);
      for (std::size_t channel = 0; channel < 3; ++channel) out[channel] = palette_[4 * index + 2 - channel];
      return;
    }
    std::uint32_t pixel = 0;
    for (std::size_t i = 0; i < bits / 8; ++i) pixel |= std::uint32_t{row_[x * bits / 8 + i]} << (8 * i);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint32_t mask = header_.masks[channel], most = mask >> std::countr_zero(mask);
      out[channel] = static_cast<std::uint8_t>((pixel & mask) / (mask / most) * 255 / most);
    }
  }

  std::filesystem::path path_;
  InputFile file_;
  BmpHeader header_;
  std::vector<std::uint8_t> row_, palette_{};  // blue, green, red and a byte that means nothing
  int next_ = 0;
};

}  // namespace

std::optional<BmpHeader> read_bmp_header(const InputFile& file) {
  std::array<std::byte, kFileHeader + kWithMasks> bytes{};
  if (file.size_bytes() < kFileHeader + kWindows3) return std::nullopt;
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file.size_bytes(), bytes.size()));
  file.read_at(0, std::span(bytes).first(count));
  const auto number = [&](std::size_t at, std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
    return value;
  };
  const auto with_sign = [&](std::size_t at) { return std::int64_t{static_cast<std::int32_t>(number(at, 4))}; };
  const std::uint64_t length = number(14, 4);
  BmpHeader header{.width = with_sign(18),
                   .height = std::abs(with_sign(22)),
                   .top_down = with_sign(22) < 0,
                   .bits = static_cast<int>(number(28, 2)),
                   .pixels_at = number(10, 4)};
  const bool is_sized = header.width > 0 && header.height > 0 && header.height <= std::numeric_limits<int>::max();
  if (length < kWindows3 || length > kLongestHeader || !is_sized) return std::nullopt;
  constexpr std::array kDepths = {1, 2, 4, 8, 16, 24, 32};
  if (std::ranges::find(kDepths, header.bits) == kDepths.end()) return std::nullopt;
  const std::uint64_t compression = number(30, 4);
  if (compression == kPlain) {
    if (header.bits >= 16) header.masks = header.bits == 16 ? k555 : kBytes;
  } else if (compression == kBitFields && header.bits >= 16 && count == bytes.size()) {
    // The masks follow the header of Windows 3, or are the next fields of a longer one.
    for (std::size_t channel = 0; channel < 3; ++channel) {
      header.masks[channel] = static_cast<std::uint32_t>(number(kFileHeader + kWindows3 + 4 * channel, 4));
    }
    if (header.bits == 32 && header.masks == Masks{}) header.masks = kBytes;
  } else {
    return std::nullopt;
  }
  if (header.bits >= 16) return is_known(header.bits, header.masks) ? std::optional(header) : std::nullopt;
  const std::uint64_t most = std::uint64_t{1} << header.bits, used = number(46, 4);
  header.colours_at = kFileHeader + length;
  header.colours = used == 0 ? most : std::min(used, most);
  return header;
}

std::unique_ptr<ImageRows> open_bmp(const std::filesystem::path& path, const BmpHeader& header) {
  return std::make_unique<BmpRows>(path, header);
}

}  // namespace plimsoll
