// The class of a page from its windows: the mean of their logits; and scores over a data set, as scikit-learn computes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/sequence_classification/head.h"
#include "tasks/task.h"

namespace plimsoll {

// Adds up the logits of a page's windows.
class LogitMean {
 public:
  void begin_page();
  // `logits` f32[B, C]. False: not finite.
  [[nodiscard]] bool add_window(const TensorView& logits, std::int64_t sample);
  // [C]; empty before the first window.
  std::vector<double> mean() const;

 private:
  std::vector<double> sum_;
  std::int64_t windows_ = 0;
};

// What a page's logits say: a probability for each class (softmax, or a sigmoid each), or the number.
std::vector<double> class_probabilities(const std::vector<double>& logits, ClassProblem problem);
// The classes predicted: the likeliest one, or all at or above a half.
std::vector<std::int32_t> predicted_classes(const std::vector<double>& logits, ClassProblem problem);

std::unique_ptr<Scorer> class_scorer(const TaskConfig& config);
std::unique_ptr<Predictions> class_predictions(const TaskConfig& config, const PredictionOptions& options);

}  // namespace plimsoll
