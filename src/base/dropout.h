// Dropout without a stored mask: whether an element is kept is a pure function of (key of the update, site, sample, token,
// column or head and key token). Every backend computes this same function, so recomputing a step, splitting a batch
// otherwise or moving to another device changes no mask.
//
// Counters (see philox.h), 32 bits each; a Philox call serves four neighbours:
//   hidden states:            {token, column / 4,    site,              sample}, word column % 4
//   attention probabilities:  {query, key_token / 4, site | head << 16, sample}, word key_token % 4
// `token`, `query`, `key_token` are token coordinates (text token t: t; visual token v: kVisualCoordinate + v), `sample` is
// the index in the effective batch, sites are numbered by the model and stay below 65,536.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace plimsoll {

// First token coordinate of visual tokens; a multiple of 4, beyond any text position.
inline constexpr std::int32_t kVisualCoordinate = 65536;

// An element is kept if its random word is at least this. p in [0, 1).
inline std::uint32_t dropout_threshold(double p) { return static_cast<std::uint32_t>(std::llround(p * 0x1.0p32)); }

// What kept elements are multiplied by.
inline double dropout_scale(double p) { return 1.0 / (1.0 - p); }

// The key of one update, from the run's seed: the only thing about dropout that changes from step to step.
constexpr PhiloxKey dropout_key(std::uint64_t seed, std::uint64_t update) {
  const PhiloxOutput r = philox4x32({static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(update >> 32), 0, 1},
                                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return {r[0], r[1]};
}

constexpr std::uint32_t hidden_dropout_word(PhiloxKey key, std::uint32_t site, std::uint32_t sample,
                                            std::uint32_t token, std::uint32_t column) {
  return philox4x32({token, column / 4, site, sample}, key)[column % 4];
}

constexpr std::uint32_t attention_dropout_word(PhiloxKey key, std::uint32_t site, std::uint32_t head,
                                               std::uint32_t sample, std::uint32_t query, std::uint32_t key_token) {
  return philox4x32({query, key_token / 4, site | (head << 16), sample}, key)[key_token % 4];
}

}  // namespace plimsoll
