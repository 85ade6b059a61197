#include "tasks/token_classification/words.h"

#include <cmath>
#include <utility>

#include "tasks/parts/judgement.h"
#include "tasks/token_classification/metrics.h"

namespace plimsoll {
namespace {

// Returns the index of the largest logit, and its softmax probability.
std::pair<std::int32_t, float> likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < logits.size(); ++c) {
    if (logits[c] > logits[best]) best = c;
  }
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - logits[best]);
  return {static_cast<std::int32_t>(best), 1.0F / sum};
}

}  // namespace

void WordMerger::begin_page(std::uint32_t page) {
  page_.page = page;
  page_.labels.clear();
  page_.probabilities.clear();
  page_.gold.clear();
  page_.scores.clear();
  page_.loss = 0;
  page_.loss_terms = 0;
}

bool WordMerger::add_window(const Batch& batch, std::int64_t sample, const TensorView& logits) {
  const auto width = static_cast<std::size_t>(logits.shape()[1]);
  const std::int32_t* const gold = batch.tensor(input::kLabels).data<std::int32_t>();
  for (std::int64_t row = batch.first_text_row(sample); row < batch.first_text_row(sample + 1); ++row) {
    const std::int32_t word = batch.predicts()[static_cast<std::size_t>(row)];
    if (word == kNoWord) continue;
    const float* const first = logits.data<float>() + static_cast<std::size_t>(row) * width;
    if (!add_word(word, {first, width}, gold[row])) return false;
  }
  return true;
}

bool WordMerger::add_word(std::int32_t word, std::span<const float> logits, std::int32_t gold) {
  const auto [label, probability] = likeliest(logits);
  if (!std::isfinite(probability)) return false;
  const auto index = static_cast<std::size_t>(word);
  if (index >= page_.labels.size()) {
    page_.labels.resize(index + 1, kNoPrediction);
    page_.probabilities.resize(index + 1, 0);
    page_.gold.resize(index + 1, kIgnoredLabel);
    if (all_scores_) page_.scores.resize((index + 1) * logits.size(), 0);
  }
  page_.labels[index] = label;
  page_.probabilities[index] = probability;
  page_.gold[index] = gold;
  if (gold != kIgnoredLabel) {
    page_.loss += cross_entropy_of(logits, static_cast<std::size_t>(gold));
    ++page_.loss_terms;
  }
  if (!all_scores_) return true;
  const float largest = logits[static_cast<std::size_t>(label)];
  for (std::size_t c = 0; c < logits.size(); ++c) {
    page_.scores[index * logits.size() + c] = probability * std::exp(logits[c] - largest);
  }
  return true;
}

}  // namespace plimsoll
