// Entity-level precision, recall and F1, equal to seqeval's, one page at a time. What an entity is follows from the
// label set's scheme (data/label_scheme.h).
//
// An entity counts as found only if its type, its first and its last word are all right. Only counts are kept: memory
// does not grow with the number of pages, and adding a page allocates nothing.
//
//   EntityMetrics metrics({"O", "B-DATE", "I-DATE"});
//   metrics.add_page(gold_ids, predicted_ids);          // one label id per word
//   fmt::print("F1 {:.3f}", metrics.overall().f1);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/label_scheme.h"

namespace plimsoll {

// Replaces a predicted label if nothing was predicted for the word, which is then outside every entity.
inline constexpr std::int32_t kNoPrediction = -1;

struct EntityScores {
  double precision = 0;         // 0 where nothing was predicted
  double recall = 0;            // 0 where there is nothing to find
  double f1 = 0;                // harmonic mean of the two, 0 where both are
  std::uint64_t support = 0;    // entities in the gold labels
  std::uint64_t predicted = 0;  // entities in the predictions
  std::uint64_t correct = 0;    // entities in both
};

class EntityMetrics {
 public:
  // One entity type of the label set with its scores.
  struct Labelled {
    std::string type;  // "DATE"
    EntityScores scores;
  };

  // `label_names[id]` as in the model's id2label. Throws DataError on an empty name.
  explicit EntityMetrics(std::vector<std::string> label_names);

  // Label ids of one page's words in reading order, both [words]; an entity never spans two pages. A predicted id may
  // be kNoPrediction. Throws InternalError on different lengths or ids outside the label set.
  void add_page(std::span<const std::int32_t> gold, std::span<const std::int32_t> predicted);

  // Returns the scores over all types together: seqeval's "micro avg".
  EntityScores overall() const;
  // Returns the types that occurred as gold or predicted entities, sorted by name, as in seqeval's report.
  std::vector<Labelled> per_type() const;
  // Resets it to its initial state.
  void reset();

 private:
  using Label = EntityWalker::Label;  // its type is an index into types_
  struct Counts {
    std::uint64_t gold = 0;
    std::uint64_t predicted = 0;
    std::uint64_t correct = 0;
  };

  void advance(Label gold, Label predicted);

  LabelScheme scheme_;
  std::vector<std::string> types_;  // sorted
  std::vector<Label> labels_;
  std::vector<Counts> counts_;  // by type
  Label outside_;
  EntityWalker gold_;
  EntityWalker predicted_;
  std::uint64_t position_ = 0;
};

}  // namespace plimsoll
