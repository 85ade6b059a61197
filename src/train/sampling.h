// Which token comes next, by the logits of a language model: the likeliest one, or one that is drawn. Options are those
// of `transformers`' GenerationConfig, in the order in which it applies them.
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
  double repetition_penalty = 1;  // of tokens that the text has: logits are divided by it, below 0 multiplied
  bool do_sample = false;         // false: the likeliest; what follows means nothing then
  double temperature = 1;         // logits are divided by it
  std::int64_t top_k = 50;        // only so many of the likeliest; 0: all
  double top_p = 1;               // only the likeliest that have this much probability together
  std::uint64_t seed = 42;
};

class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, std::int64_t vocab_size);

  // `logits` may be changed. `tokens`: of the text so far, at least one. The draw depends on the seed, `text` and the
  // number of tokens alone. Of equal logits the first is taken.
  std::int32_t next(std::span<float> logits, std::span<const std::int32_t> tokens, std::uint32_t text);

 private:
  std::int32_t draw(std::span<const float> logits, std::size_t position, std::uint32_t text);

  SamplingOptions options_;
  std::vector<bool> seen_;                            // by token
  std::vector<std::pair<float, std::int32_t>> kept_;  // logits and tokens, the likeliest first
};

}  // namespace plimsoll
