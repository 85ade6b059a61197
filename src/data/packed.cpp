#include "data/packed.h"

#include <cstring>

#include "base/error.h"

namespace plimsoll {

void check_packed(bool whole) {
  if (whole) return;
  throw EnvironmentError({.what = "a page that was kept on disk came back with other bytes",
                          .where = "the file of pages that were read, in --cache or else in $TMPDIR or /var/tmp",
                          .allowed = "the bytes that were written",
                          .remedy = "check that disk, or choose a directory on another one"});
}

// Writes seven bits per byte, the lowest first; the eighth bit says that more follow.
void Packer::count(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
  bytes_.push_back(static_cast<std::byte>(value));
}

// Maps 0, -1, 1, -2 … to 0, 1, 2, 3 …
void Packer::number(std::int64_t value) {
  count(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

void Packer::real(double value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void Packer::text(std::string_view text) {
  count(text.size());
  const auto bytes = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::span<const std::byte> Unpacker::take(std::size_t bytes) {
  check_packed(bytes <= rest_.size());
  const std::span<const std::byte> taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

std::uint64_t Unpacker::count() {
  constexpr int kMostBits = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < kMostBits; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(take(1).front());
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::size_t Unpacker::size() {
  const std::uint64_t value = count();
  check_packed(value <= rest_.size());
  return static_cast<std::size_t>(value);
}

std::int64_t Unpacker::number() {
  const std::uint64_t value = count();
  return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

double Unpacker::real() {
  double value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

std::string Unpacker::text() {
  const auto bytes = take(static_cast<std::size_t>(count()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace plimsoll
