// Entity-level precision, recall and F1, equal to seqeval's default (conlleval's rules), one page at a time.
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

namespace plimsoll {

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

  // `label_names[id]` as in the model's id2label: "O", or a tag B, I, E or S, a dash and a type. The first character is
  // the tag, what follows the first dash the type ("_" if nothing does), as seqeval splits them. Throws DataError on an
  // empty name.
  explicit EntityMetrics(std::vector<std::string> label_names);

  // Label ids of one page's words in reading order, both [words]; an entity never spans two pages. Throws InternalError
  // on different lengths or ids outside the label set.
  void add_page(std::span<const std::int32_t> gold, std::span<const std::int32_t> predicted);

  // Over all types together: seqeval's "micro avg".
  EntityScores overall() const;
  // Types that occurred as gold or predicted entities, sorted by name, as in seqeval's report.
  std::vector<Labelled> per_type() const;
  // As newly made.
  void reset();

 private:
  struct Label {
    char tag = 'O';
    std::int32_t type = 0;  // index into types_
  };
  struct Counts {
    std::uint64_t gold = 0;
    std::uint64_t predicted = 0;
    std::uint64_t correct = 0;
  };
  struct Entity {
    std::int32_t type = 0;
    std::uint64_t begin = 0;  // words since the first page, a gap of one between pages
    friend bool operator==(const Entity&, const Entity&) = default;
  };
  // Walks over one sequence of labels, a word at a time.
  class Walker {
   public:
    // Takes the label at `position`; true if an entity ended on the word before, which `ended` then describes.
    bool advance(Label label, std::uint64_t position, Entity& ended);

   private:
    Label previous_{'O', -1};
    std::uint64_t begin_ = 0;
  };

  void advance(Label gold, Label predicted);

  std::vector<std::string> types_;  // sorted
  std::vector<Label> labels_;
  std::vector<Counts> counts_;  // by type
  Label outside_;
  Walker gold_;
  Walker predicted_;
  std::uint64_t position_ = 0;
};

}  // namespace plimsoll
