#include "tasks/token_classification/metrics.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

EntityScores scores_of(std::uint64_t gold, std::uint64_t predicted, std::uint64_t correct) {
  EntityScores scores;
  scores.support = gold;
  scores.predicted = predicted;
  scores.correct = correct;
  const auto hits = static_cast<double>(correct);
  if (predicted > 0) scores.precision = hits / static_cast<double>(predicted);
  if (gold > 0) scores.recall = hits / static_cast<double>(gold);
  if (correct > 0) {
    scores.f1 = 2 * scores.precision * scores.recall / (scores.precision + scores.recall);
  }
  return scores;
}

}  // namespace

EntityMetrics::EntityMetrics(std::vector<std::string> label_names)
    : scheme_(label_scheme(label_names)), gold_(scheme_), predicted_(scheme_) {
  const LabelParts outside;
  types_.emplace_back(outside.type);
  for (const std::string& name : label_names) {
    if (name.empty()) {
      throw DataError({.what = "a label has no name",
                       .where = "the label set",
                       .found = "\"\"",
                       .allowed = "\"O\", a type such as \"DATE\", or a tag and a type such as \"B-DATE\"",
                       .remedy = "name every label in the model's id2label"});
    }
    types_.emplace_back(split_label(name, scheme_).type);
  }
  std::sort(types_.begin(), types_.end());
  types_.erase(std::unique(types_.begin(), types_.end()), types_.end());
  const auto label = [this](const LabelParts& parts) {
    const auto type = std::lower_bound(types_.begin(), types_.end(), parts.type) - types_.begin();
    return Label{parts.tag, static_cast<std::int32_t>(type)};
  };
  labels_.reserve(label_names.size());
  for (const std::string& name : label_names) labels_.push_back(label(split_label(name, scheme_)));
  outside_ = label(outside);
  counts_.resize(types_.size());
}

void EntityMetrics::advance(Label gold, Label predicted) {
  EntityWalker::Entity in_gold, in_prediction;
  const bool gold_ended = gold_.advance(gold, position_, in_gold);
  const bool prediction_ended = predicted_.advance(predicted, position_, in_prediction);
  ++position_;
  const auto counts = [this](const EntityWalker::Entity& entity) -> Counts& {
    return counts_[static_cast<std::size_t>(entity.type)];
  };
  if (gold_ended) ++counts(in_gold).gold;
  if (prediction_ended) ++counts(in_prediction).predicted;
  // Both ended on the same word: the same entity if type and first word agree too.
  if (gold_ended && prediction_ended && in_gold == in_prediction) ++counts(in_gold).correct;
}

void EntityMetrics::add_page(std::span<const std::int32_t> gold, std::span<const std::int32_t> predicted) {
  check(gold.size() == predicted.size(), "a page has as many predicted labels as gold labels");
  const auto label = [this](std::int32_t id) {
    check(id >= 0 && static_cast<std::size_t>(id) < labels_.size(), "a label id is in the label set");
    return labels_[static_cast<std::size_t>(id)];
  };
  for (std::size_t word = 0; word < gold.size(); ++word) {
    advance(label(gold[word]), predicted[word] == kNoPrediction ? outside_ : label(predicted[word]));
  }
  advance(outside_, outside_);  // closes what is still open
}

EntityScores EntityMetrics::overall() const {
  Counts sum;
  for (const Counts& counts : counts_) {
    sum.gold += counts.gold;
    sum.predicted += counts.predicted;
    sum.correct += counts.correct;
  }
  return scores_of(sum.gold, sum.predicted, sum.correct);
}

std::vector<EntityMetrics::Labelled> EntityMetrics::per_type() const {
  std::vector<Labelled> result;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const Counts& counts = counts_[i];
    if (counts.gold + counts.predicted == 0) continue;
    result.push_back({types_[i], scores_of(counts.gold, counts.predicted, counts.correct)});
  }
  return result;
}

void EntityMetrics::reset() {
  std::fill(counts_.begin(), counts_.end(), Counts{});
  gold_ = EntityWalker(scheme_);
  predicted_ = EntityWalker(scheme_);
  position_ = 0;
}

}  // namespace plimsoll
