#include "data/image_bmp.h"

#include <array>
#include <cstddef>
#include <cstdlib>

namespace plimsoll {

std::optional<BmpHeader> read_bmp_header(const InputFile& file) {
  std::array<std::byte, 34> header{};
  if (file.size_bytes() < header.size()) return std::nullopt;
  file.read_at(0, header);
  const auto number = [&](std::size_t at, std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(header[at + i]) << (8 * i);
    return value;
  };
  const auto with_sign = [&](std::size_t at) { return std::int64_t{static_cast<std::int32_t>(number(at, 4))}; };
  constexpr std::uint64_t kWindows3 = 40;  // bytes of its header
  if (number(14, 4) < kWindows3) return std::nullopt;
  return BmpHeader{.width = with_sign(18),
                   .height = std::abs(with_sign(22)),
                   .bits = static_cast<int>(number(28, 2)),
                   .compression = number(30, 4),
                   .pixels_at = number(10, 4)};
}

}  // namespace plimsoll
