// Dropout without a stored mask: whether an element is kept is a pure function of (key of the update, site, sample,
// token and column, or head, query and key). Every backend computes the same function, so recomputing a step, splitting
// a batch differently or moving to another device changes no mask.
//
// It uses counters (see philox.h) of 32 bits each; one Philox call serves eight neighbours, 16 bits each:
//   hidden states:            {token, column / 8, site,              sample}, bits column % 8
//   attention probabilities:  {query, key / 8,    site | head << 16, sample}, bits key % 8
// Dropout is recomputed wherever it is needed, three times a step for each attention score, so it takes seven rounds.
// Bits 2w and 2w + 1 are the lower and the upper half of word w. `token` is a token coordinate (text token t: t; visual
// token v: kVisualCoordinate + v); `query` and `key` count the rows of their sample from 0, so that the keys of one
// call are adjacent wherever the sample begins; `sample` is the index in the effective batch; the model numbers the
// sites, which stay below 65,536.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace plimsoll {

// The first token coordinate of visual tokens, beyond any text position.
inline constexpr std::int32_t kVisualCoordinate = 65536;

// An element is kept if its bits are at least this: p in [0, 1) in 65,536 steps, at least one of which is kept.
inline std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(std::min<long long>(std::llround(p * 65536), 65535));
}

// The factor of kept elements, 1 over the kept fraction, so that means do not change.
inline double dropout_scale(double p) { return 65536.0 / (65536 - dropout_threshold(p)); }

// The key of one update, derived from the run's seed: the only part of dropout that changes from step to step.
constexpr PhiloxKey dropout_key(std::uint64_t seed, std::uint64_t update) {
  const PhiloxOutput r =
      philox4x32({static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(update >> 32), 0, 1},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return {r[0], r[1]};
}

inline constexpr int kDropoutRounds = 7;

// Returns the words of one call, which serve eight elements.
constexpr PhiloxOutput dropout_words(const PhiloxCounter& counter, const PhiloxKey& key) {
  return philox4x32<kDropoutRounds>(counter, key);
}
// Returns the bits of one of the eight.
constexpr std::uint32_t dropout_bits(const PhiloxOutput& words, std::uint32_t which) {
  return words[which / 2] >> (which % 2 * 16) & 0xFFFF;
}

constexpr std::uint32_t hidden_dropout_bits(PhiloxKey key, std::uint32_t site, std::uint32_t sample,
                                            std::uint32_t token, std::uint32_t column) {
  return dropout_bits(dropout_words({token, column / 8, site, sample}, key), column % 8);
}

constexpr std::uint32_t attention_dropout_bits(PhiloxKey key, std::uint32_t site, std::uint32_t head,
                                               std::uint32_t sample, std::uint32_t query, std::uint32_t key_row) {
  return dropout_bits(dropout_words({query, key_row / 8, site | (head << 16), sample}, key), key_row % 8);
}

}  // namespace plimsoll
