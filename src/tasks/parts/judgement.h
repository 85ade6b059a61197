// Measures of predictions other than right and wrong: whether confidences can be trusted, and which labels are
// confused.
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

  // A score is 0 if nothing was predicted, nothing was to be found, or nothing was right.
  Scores::Label score(std::string name) const;
};

// Expected calibration error: predictions are sorted into 15 bins of equal width by confidence, and each bin adds the
// distance between its mean confidence and its share of correct predictions, weighted by its size (Guo et al., "On
// Calibration of Modern Neural Networks", 2017).
class CalibrationError {
 public:
  // `confidence` from 0 to 1.
  void add(double confidence, bool right);
  // Returns a number from 0 to 1; nothing without predictions.
  std::optional<double> value() const;

 private:
  struct Bin {
    std::uint64_t count = 0, right = 0;
    double confidence = 0;  // sum
  };
  std::array<Bin, 15> bins_;
};

// Returns -log softmax(logits)[wanted].
double cross_entropy_of(std::span<const float> logits, std::size_t wanted);

// Counts how often each of `names` is taken for each other.
class ConfusionCounts {
 public:
  explicit ConfusionCounts(std::vector<std::string> names);
  void add(std::size_t gold, std::size_t predicted);
  // Returns the matrix of the names that occur.
  Scores::Confusion matrix() const;

 private:
  Scores::Confusion all_;
};

}  // namespace plimsoll
