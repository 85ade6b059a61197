// A fingerprint of bytes: tells contents apart and shows damage. No defence against somebody who means harm.
//
//   std::uint64_t key = hash_bytes(std::as_bytes(std::span(text)));
//   key = hash_bytes(more, key);                       // of both, in this order
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace plimsoll {

// XXH3, 64 bits: faster than memory.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// hash_bytes of bytes that come in pieces: the same number however they are cut.
class Hasher {
 public:
  Hasher();
  void add(std::span<const std::byte> bytes);
  std::uint64_t digest() const;  // of all that was added so far

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace plimsoll
