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
  // Of one label: precision, recall and F1 from 0 to 1; how often it is in the data.
  struct Label {
    std::string name;
    double precision = 0, recall = 0, f1 = 0;
    std::uint64_t support = 0;
  };
  // What is taken for what: counts[gold * n + predicted] of n names. Empty where a task has none.
  struct Confusion {
    std::vector<std::string> names;
    std::vector<std::uint64_t> counts;
  };
  // Both are sums over the pages, so that pages can be drawn anew, and two models compared page by page.
  struct Quotient {
    double above = 0, below = 0;
    double value() const { return below == 0 ? 0 : above / below; }
  };
  std::vector<Metric> metrics;  // the first is the one that checkpoints are compared by unless an option names another
  std::uint64_t support = 0;    // what was to be found: entities, labels, answers
  std::vector<Label> labels{};  // empty where the task has none
  std::optional<Label> all{};   // the metrics, where they are a label's
  Confusion confusion{};
  std::optional<double> calibration_error{};  // how far confidences are from being right as often (tasks/parts)
  Quotient first{};                           // the first metric
  bool is_exponent = false;                   // e to that power is the first metric: perplexity, of a mean loss
  std::int64_t missed_words = 0;              // labelled words without a prediction: cut off, or without tokens
};

}  // namespace plimsoll
