// Numbers and texts packed into few bytes, and read back: the form in which a page is kept between its JSON and its
// use.
//
//   Packer packer;
//   packer.count(words.size());
//   for (const std::string& word : words) packer.text(word);
//   Unpacker unpacker(packer.bytes());
//   std::vector<std::string> again(unpacker.count());
//   for (std::string& word : again) word = unpacker.text();
//
// Invariant: what is read must be what was written, in its order. Damaged bytes throw EnvironmentError where they are
// seen to be damaged, and are never read beyond their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Throws EnvironmentError unless `whole`: the disk returned other bytes than were written.
void check_packed(bool whole);

class Packer {
 public:
  // Writes a number; small ones take one byte.
  void count(std::uint64_t value);
  void number(std::int64_t value);
  // Writes every bit of it.
  void real(double value);
  void text(std::string_view text);

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint64_t count();
  // Reads a count of things that take at least a byte each, so it is at most the number of bytes left.
  std::size_t size();
  std::int64_t number();
  double real();
  std::string text();
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes);

  std::span<const std::byte> rest_;
};

}  // namespace plimsoll
