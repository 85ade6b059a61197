// How predictions are judged beside right and wrong: whether confidences can be believed, and what is taken for what.
//
//   CalibrationError calibration;
//   calibration.add(0.93, true);
//   scores.calibration_error = calibration.value();
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/scores.h"

namespace plimsoll {

// How often a label is in the data, is predicted, and both.
struct LabelCounts {
  std::uint64_t gold = 0, predicted = 0, right = 0;

  // Each score is 0 where nothing was predicted, was to be found, or was right.
  Scores::Label score(std::string name) const;
};

// Expected calibration error: predictions are sorted into 15 bins of equal width by confidence, and each bin adds the
// distance between its mean confidence and its share of right ones, weighted by its size (Guo et al., "On Calibration
// of Modern Neural Networks", 2017).
class CalibrationError {
 public:
  // `confidence` from 0 to 1.
  void add(double confidence, bool right);
  // From 0 to 1; nothing without predictions.
  std::optional<double> value() const;

 private:
  struct Bin {
    std::uint64_t count = 0, right = 0;
    double confidence = 0;  // sum
  };
  std::array<Bin, 15> bins_;
};

// -log softmax(logits)[wanted].
double cross_entropy_of(std::span<const float> logits, std::size_t wanted);

// How often each of `names` is taken for each.
class ConfusionCounts {
 public:
  explicit ConfusionCounts(std::vector<std::string> names);
  void add(std::size_t gold, std::size_t predicted);
  // The names that occur.
  Scores::Confusion matrix() const;

 private:
  Scores::Confusion all_;
};

}  // namespace plimsoll
