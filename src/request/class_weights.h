// Weights of classes in the loss: as typed, or balanced by how often the data has each label.
//
//   check_class_weights(bundle, request);               // the task is known
//   set_class_weights(bundle, request, report.labels);  // labels and data are known
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bundle/model_bundle.h"

namespace plimsoll {

struct ClassWeightRequest {
  bool balanced = false;
  std::vector<std::pair<std::string, double>> named{};  // the others weigh 1

  bool asked() const { return balanced || !named.empty(); }
};

// Throws UsageError if weights are asked for and the loss is not over classes with one right class each.
void check_class_weights(const ModelBundle& bundle, const ClassWeightRequest& request);

// Sets the weights of bundle.config.task.loss; `counts` says how often the training data has each label. A balanced
// weight is n / (c count), where n is the sum of the counts and c the number of labels that occur, as in scikit-learn's
// compute_class_weight; a label that does not occur weighs 1. Throws UsageError for a name that is not a label, and if
// all weights are 0.
void set_class_weights(ModelBundle& bundle, const ClassWeightRequest& request,
                       const std::map<std::string, std::uint64_t>& counts);

// Returns "O 0.25, B-TOTAL 3.1".
std::string class_weights_text(const TaskConfig& config);

}  // namespace plimsoll
