// What the model is trained for, and its labels: from the options, the model or the data.
#pragma once

#include <string>

#include "bundle/model_bundle.h"
#include "data/findings.h"
#include "request/class_weights.h"
#include "request/reading.h"

namespace plimsoll {

struct ModelRequest {
  std::string model;
  std::string tokenizer{};     // empty: the model's
  std::string labels{};        // empty: the model's or the data's
  std::string task{};          // empty: the model's
  std::string problem_type{};  // empty: the model's or the data's
  std::string base_model{};    // empty: where an adapter says
  LossOptions loss{};          // its class weights follow from the labels and the data
  ClassWeightRequest class_weights{};
};

// Gives the model the requested task, problem type and labels. Call it before reading pages, because the task says what
// is read from them.
void set_task_and_labels(ModelBundle& bundle, const ModelRequest& model);

// Returns how pages with targets are read once the task is set. Numbers get names if the labels are known by then.
ReadOptions labelled_reading(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data);

// Sets problem type and labels, after set_task_and_labels. Labels come from --labels, from the model (if it has those
// of the data), or from the data; a head for other labels is replaced by a new one. Returns what the user should know
// about how the data's targets were read.
Findings resolve_labels(ModelBundle& bundle, const ModelRequest& model, const PageSource& pages);

}  // namespace plimsoll
