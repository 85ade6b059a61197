// A fingerprint of bytes that tells contents apart and reveals damage. It does not protect against an attacker.
//
//   std::uint64_t key = hash_bytes(std::as_bytes(std::span(text)));
//   key = hash_bytes(more, key);                       // covers both, in this order
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace plimsoll {

// XXH3, 64 bits: faster than memory.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// A hash as files and messages have it: 16 digits.
std::string hash_digits(std::uint64_t hash);

// Computes hash_bytes of bytes that come in pieces; the result does not depend on how they are cut.
class Hasher {
 public:
  Hasher();
  void add(std::span<const std::byte> bytes);
  // Adds a text and marks its end, so that "ab" and "c" differ from "a" and "bc".
  void add_text(const std::string& text) { add(std::as_bytes(std::span(text.c_str(), text.size() + 1))); }
  std::uint64_t digest() const;  // covers everything added so far
  void reset();                  // back to the state of a new Hasher

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace plimsoll
