// What the model is trained for, and what its labels are: as typed, as the model has them, or as the data has them.
#pragma once

#include <string>

#include "bundle/model_bundle.h"
#include "request/reading.h"

namespace plimsoll {

struct ModelRequest {
  std::string model;
  std::string tokenizer{};     // empty: the model's
  std::string labels{};        // empty: the model's or the data's
  std::string task{};          // empty: the model's
  std::string problem_type{};  // empty: the model's or the data's
  std::string base_model{};    // empty: where an adapter says
};

// Settles the model's task, problem type and labels. Labels come from --labels, from the model (if it has those of the
// data), or from the data; a head that was made for others is made new.
void resolve_labels(ModelBundle& bundle, const ModelRequest& model, const DataRequest& data);

}  // namespace plimsoll
