// Scores: how good a model is on a data set, in a form that every task fills and that tables, JSON and the choice of
// the best checkpoint read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct Scores {
  struct Metric {
    std::string name;  // "f1"
    double value = 0;
    bool smaller_is_better = false;
  };
  // The scores of one label: precision, recall and F1 from 0 to 1, and how often it is in the data.
  struct Label {
    std::string name;
    double precision = 0, recall = 0, f1 = 0;
    std::uint64_t support = 0;
  };
  // Which names are confused: counts[gold * n + predicted] for n names. Empty if the task has none.
  struct Confusion {
    std::vector<std::string> names;
    std::vector<std::uint64_t> counts;
  };
  // Both are sums over the pages, so that pages can be resampled, and two models compared page by page.
  struct Quotient {
    double above = 0, below = 0;
    double value() const { return below == 0 ? 0 : above / below; }
  };
  std::vector<Metric> metrics;  // checkpoints are compared by the first, unless an option names another
  std::uint64_t support = 0;    // how many entities, labels or answers were to be found
  std::vector<Label> labels{};  // empty if the task has none
  std::optional<Label> all{};   // the metrics, if they are those of a label
  Confusion confusion{};
  std::optional<double> calibration_error{};  // expected, of confidences (tasks/parts/judgement.h)
  Quotient first{};                           // the first metric
  bool is_exponent = false;                   // the first metric is e to the power of `first`: perplexity
  std::int64_t missed_words = 0;              // labelled words without a prediction: cut off, or without tokens
};

}  // namespace plimsoll
