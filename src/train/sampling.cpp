#include "train/sampling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {

TokenSampler::TokenSampler(const SamplingOptions& options, std::int64_t vocab_size)
    : options_(options), seen_(static_cast<std::size_t>(vocab_size)) {
  if (options_.do_sample) kept_.resize(seen_.size());
}

std::int32_t TokenSampler::next(std::span<float> logits, std::span<const std::int32_t> tokens, std::uint32_t text) {
  check(logits.size() == seen_.size() && !tokens.empty(), "logits are those of the vocabulary, of a text");
  if (options_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    std::fill(seen_.begin(), seen_.end(), false);
    for (const std::int32_t token : tokens) seen_.at(static_cast<std::size_t>(token)) = true;
    for (std::size_t id = 0; id < seen_.size(); ++id) {
      if (seen_[id]) logits[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
    }
  }
  if (!options_.do_sample) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  return draw(logits, tokens.size(), text);
}

std::int32_t TokenSampler::draw(std::span<const float> logits, std::size_t position, std::uint32_t text) {
  const auto temperature = static_cast<float>(options_.temperature);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    kept_[id] = {logits[id] / temperature, static_cast<std::int32_t>(id)};
  }
  const auto likelier = [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  const auto most =
      options_.top_k > 0 ? std::min(kept_.size(), static_cast<std::size_t>(options_.top_k)) : kept_.size();
  std::partial_sort(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(most), kept_.end(), likelier);
  const float largest = kept_.front().first;
  const auto weight = [&](std::size_t i) { return std::exp(double{kept_[i].first} - double{largest}); };
  double whole = 0;
  for (std::size_t i = 0; i < most; ++i) whole += weight(i);
  // The token that reaches top_p is included.
  double taken = 0;
  std::size_t count = 0;
  while (count < most && (count == 0 || taken < options_.top_p * whole)) taken += weight(count++);
  const PhiloxKey key = {static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)};
  const PhiloxOutput bits = philox4x32({static_cast<std::uint32_t>(position), text, 0, 5}, key);
  double left = (static_cast<double>(bits[0]) + static_cast<double>(bits[1]) * 0x1.0p-32) * 0x1.0p-32 * taken;
  for (std::size_t i = 0; i < count; ++i) {
    left -= weight(i);
    if (left < 0) return kept_[i].second;
  }
  return kept_[count - 1].second;
}

}  // namespace plimsoll
