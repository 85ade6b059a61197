// A fingerprint of bytes: tells contents apart and shows damage. No defence against somebody who means harm.
//
//   std::uint64_t key = hash_bytes(std::as_bytes(std::span(text)));
//   key = hash_bytes(more, key);                       // of both, in this order
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll {

// XXH3, 64 bits: faster than memory.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace plimsoll
