#include "tasks/parts/judgement.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll {

Scores::Label LabelCounts::score(std::string name) const {
  Scores::Label label{.name = std::move(name), .support = gold};
  const auto both = static_cast<double>(right);
  if (predicted > 0) label.precision = both / static_cast<double>(predicted);
  if (gold > 0) label.recall = both / static_cast<double>(gold);
  if (right > 0) label.f1 = 2 * label.precision * label.recall / (label.precision + label.recall);
  return label;
}

void CalibrationError::add(double confidence, bool right) {
  const auto bins = static_cast<double>(bins_.size());
  const double at = std::clamp(std::ceil(confidence * bins) - 1, 0.0, bins - 1);  // bins are open below
  Bin& bin = bins_[static_cast<std::size_t>(at)];
  ++bin.count;
  bin.right += right ? 1U : 0U;
  bin.confidence += confidence;
}

std::optional<double> CalibrationError::value() const {
  double error = 0;
  std::uint64_t all = 0;
  for (const Bin& bin : bins_) {
    error += std::abs(bin.confidence - static_cast<double>(bin.right));
    all += bin.count;
  }
  if (all == 0) return std::nullopt;
  return error / static_cast<double>(all);
}

double cross_entropy_of(std::span<const float> logits, std::size_t wanted) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[wanted];
}

ConfusionCounts::ConfusionCounts(std::vector<std::string> names) {
  all_.names = std::move(names);
  all_.counts.resize(all_.names.size() * all_.names.size());
}

void ConfusionCounts::add(std::size_t gold, std::size_t predicted) {
  ++all_.counts[gold * all_.names.size() + predicted];
}

Scores::Confusion ConfusionCounts::matrix() const {
  const std::size_t size = all_.names.size();
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t j = 0; j < size; ++j) sum += all_.counts[i * size + j] + all_.counts[j * size + i];
    if (sum > 0) used.push_back(i);
  }
  Scores::Confusion matrix;
  for (const std::size_t gold : used) {
    matrix.names.push_back(all_.names[gold]);
    for (const std::size_t predicted : used) matrix.counts.push_back(all_.counts[gold * size + predicted]);
  }
  return matrix;
}

}  // namespace plimsoll
