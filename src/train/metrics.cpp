#include "train/metrics.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kNoType = "_";

// "B-DATE" -> "DATE", "DATE" -> "ATE", "B" and "B-" -> "_": what seqeval's split gives, oddities included, so that a label
// set without tags gets the same (poor) scores here and there.
std::string entity_type(const std::string& label) {
  // The tag is one character, which UTF-8 may write in several bytes.
  std::size_t begin = 1;
  while (begin < label.size() && (static_cast<unsigned char>(label[begin]) & 0xC0U) == 0x80U) ++begin;
  const std::size_t dash = label.find('-', begin);
  const std::string type = label.substr(dash == std::string::npos ? begin : dash + 1);
  return type.empty() ? std::string(kNoType) : type;
}

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

EntityMetrics::EntityMetrics(std::vector<std::string> label_names) {
  types_.emplace_back(kNoType);
  for (const std::string& name : label_names) {
    if (name.empty()) {
      throw DataError({.what = "a label has no name",
                       .where = "the label set",
                       .found = "\"\"",
                       .allowed = "\"O\", or a tag and a type such as \"B-DATE\"",
                       .remedy = "name every label in the model's id2label"});
    }
    types_.push_back(entity_type(name));
  }
  std::sort(types_.begin(), types_.end());
  types_.erase(std::unique(types_.begin(), types_.end()), types_.end());
  const auto index_of = [this](std::string_view type) {
    return static_cast<std::int32_t>(std::lower_bound(types_.begin(), types_.end(), type) -
                                     types_.begin());
  };
  labels_.reserve(label_names.size());
  for (const std::string& name : label_names) {
    labels_.push_back({name.front(), index_of(entity_type(name))});
  }
  outside_ = {'O', index_of(kNoType)};
  counts_.resize(types_.size());
}

// conlleval's rules as a table of two questions. An entity ends before a word that begins one or is outside, after E and
// S, and where the type changes; it begins with B and S, with I or E after a word that ended one or was outside, and
// where the type changes. So I- without B- begins an entity, and E- without B- is one.
bool EntityMetrics::Walker::advance(Label label, std::uint64_t position, Entity& ended) {
  const char before = previous_.tag;
  const char now = label.tag;
  const bool type_changes = previous_.type != label.type;
  const bool was_inside = before == 'B' || before == 'I';
  const bool was_closed = before == 'E' || before == 'S' || before == 'O';

  const bool ends = before == 'E' || before == 'S' ||
                    (was_inside && (now == 'B' || now == 'S' || now == 'O')) ||
                    (before != 'O' && before != '.' && type_changes);
  const bool begins = now == 'B' || now == 'S' || (was_closed && (now == 'E' || now == 'I')) ||
                      (now != 'O' && now != '.' && type_changes);
  if (ends) ended = {previous_.type, begin_};
  if (begins) begin_ = position;
  previous_ = label;
  return ends;
}

void EntityMetrics::advance(Label gold, Label predicted) {
  Entity in_gold;
  Entity in_prediction;
  const bool gold_ended = gold_.advance(gold, position_, in_gold);
  const bool prediction_ended = predicted_.advance(predicted, position_, in_prediction);
  ++position_;
  const auto counts = [this](const Entity& entity) -> Counts& {
    return counts_[static_cast<std::size_t>(entity.type)];
  };
  if (gold_ended) ++counts(in_gold).gold;
  if (prediction_ended) ++counts(in_prediction).predicted;
  // Both ended on the same word: the same entity if type and first word agree too.
  if (gold_ended && prediction_ended && in_gold == in_prediction) ++counts(in_gold).correct;
}

void EntityMetrics::add_page(std::span<const std::int32_t> gold,
                             std::span<const std::int32_t> predicted) {
  check(gold.size() == predicted.size(), "a page has as many predicted labels as gold labels");
  const auto label = [this](std::int32_t id) {
    check(id >= 0 && static_cast<std::size_t>(id) < labels_.size(), "a label id is in the label set");
    return labels_[static_cast<std::size_t>(id)];
  };
  for (std::size_t word = 0; word < gold.size(); ++word) {
    advance(label(gold[word]), label(predicted[word]));
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
  gold_ = {};
  predicted_ = {};
  position_ = 0;
}

}  // namespace plimsoll
