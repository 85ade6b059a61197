#include "tasks/sequence_classification/classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plimsoll {

void LogitMean::begin_page() {
  sum_.clear();
  windows_ = 0;
}

bool LogitMean::add_window(const TensorView& logits, std::int64_t sample) {
  const auto width = static_cast<std::size_t>(logits.shape()[1]);
  const auto row = logits.span<float>().subspan(static_cast<std::size_t>(sample) * width, width);
  if (!std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); })) return false;
  sum_.resize(width, 0);
  for (std::size_t c = 0; c < width; ++c) sum_[c] += row[c];
  ++windows_;
  return true;
}

std::vector<double> LogitMean::mean() const {
  std::vector<double> mean = sum_;
  for (double& value : mean) value /= static_cast<double>(windows_);
  return mean;
}

std::vector<double> class_probabilities(const std::vector<double>& logits, ClassProblem problem) {
  std::vector<double> result = logits;
  if (problem == ClassProblem::kMultiLabel) {
    for (double& value : result) value = 1 / (1 + std::exp(-value));
  } else if (problem == ClassProblem::kSingleLabel) {
    const double largest = *std::ranges::max_element(result);
    for (double& value : result) value = std::exp(value - largest);
    const double sum = std::accumulate(result.begin(), result.end(), 0.0);
    for (double& value : result) value /= sum;
  }
  return result;
}

std::vector<std::int32_t> predicted_classes(const std::vector<double>& logits, ClassProblem problem) {
  std::vector<std::int32_t> classes;
  if (problem == ClassProblem::kSingleLabel) {
    classes.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
  } else if (problem == ClassProblem::kMultiLabel) {
    for (std::size_t c = 0; c < logits.size(); ++c) {
      if (logits[c] >= 0) classes.push_back(static_cast<std::int32_t>(c));
    }
  }
  return classes;
}

}  // namespace plimsoll
