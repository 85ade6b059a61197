// Byte sizes as users write and read them. 1 KiB = 1024 bytes, 1 KB = 1000; "k", "m", "g" and "t" alone are powers of
// 1024, as in coreutils.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

// Every tensor starts on a multiple of this: a cache line and the widest vector register.
inline constexpr std::size_t kAlignmentBytes = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Parses "3GiB", "3 GB", "512m", "1.5g"; a number without a unit is bytes and must be at least 1 MiB ("1073741824"),
// since a smaller one was meant otherwise. Never rounds up. Throws UsageError naming `option` otherwise.
std::size_t parse_bytes(std::string_view text, std::string_view option);

// Formats "3.00 GiB", "12.5 MiB", "640 B": three significant digits, in the unit that is easiest to read.
std::string format_bytes(std::size_t bytes);

}  // namespace plimsoll
