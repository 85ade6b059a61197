// The class of a page by the mean of its windows' logits, and scores over a data set, as scikit-learn computes them.
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
  // `logits` f32[B, C]. Returns false if they are not finite.
  [[nodiscard]] bool add_window(const TensorView& logits, std::int64_t sample);
  // Returns [C]; empty before the first window.
  std::vector<double> mean() const;

 private:
  std::vector<double> sum_;
  std::int64_t windows_ = 0;
};

// Turns a page's logits into a probability for each class (softmax, or a sigmoid each), or into the number.
std::vector<double> class_probabilities(const std::vector<double>& logits, ClassProblem problem);
// Returns the predicted classes: the likeliest one, or all with a probability of at least a half.
std::vector<std::int32_t> predicted_classes(const std::vector<double>& logits, ClassProblem problem);

std::unique_ptr<Scorer> class_scorer(const TaskConfig& config);
std::unique_ptr<Predictions> class_predictions(const TaskConfig& config, const PredictionOptions& options);

}  // namespace plimsoll
