// Chooses the next token by the logits of a language model: the likeliest one, or a random one. Options are those of
// `transformers`' GenerationConfig, in the order in which it applies them.
//
//   TokenSampler sampler({.do_sample = true, .temperature = 0.7, .top_p = 0.9}, vocab_size);
//   const std::int32_t next = sampler.next(logits, tokens, text);
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace plimsoll {

struct SamplingOptions {
  double repetition_penalty = 1;  // divides logits of tokens in the text, or multiplies them below 0
  bool do_sample = false;         // false: take the likeliest; the options below are then ignored
  double temperature = 1;         // logits are divided by it
  std::int64_t top_k = 50;        // only this many of the likeliest; 0: all
  double top_p = 1;               // only the likeliest that have this much probability together
  std::uint64_t seed = 42;
};

class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, std::int64_t vocab_size);

  // `logits` may be changed. `tokens` are the text's so far, at least one. The draw depends only on the seed, `text`
  // and the number of tokens. Of equal logits, the first is taken.
  std::int32_t next(std::span<float> logits, std::span<const std::int32_t> tokens, std::uint32_t text);

 private:
  std::int32_t draw(std::span<const float> logits, std::size_t position, std::uint32_t text);

  SamplingOptions options_;
  std::vector<bool> seen_;                            // by token
  std::vector<std::pair<float, std::int32_t>> kept_;  // logits and tokens, the likeliest first
};

}  // namespace plimsoll
