#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace plimsoll {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string hash_digits(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

Hasher::Hasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Hasher::add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }

void Hasher::reset() { XXH3_64bits_reset(state_.get()); }

std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_.get()); }

void Hasher::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

}  // namespace plimsoll
