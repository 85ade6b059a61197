// What the model is trained for, and what its labels are: as typed, as the model has them, or as the data has them.
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

// Gives the model the task, the problem type and the labels that were asked for. It precedes the reading of pages,
// because the task says what is read of them.
void set_task_and_labels(ModelBundle& bundle, const ModelRequest& model);

// How pages with targets are read once the task is set. Numbers get names where the labels are known by then.
ReadOptions labelled_reading(const ModelBundle& bundle, const ModelRequest& model, const DataRequest& data);

// Settles problem type and labels, after set_task_and_labels. Labels come from --labels, from the model (if it has
// those of the data), or from the data; a head that was made for others is made new. Returns what should be said of how
// the data's targets were taken.
Findings resolve_labels(ModelBundle& bundle, const ModelRequest& model, const PageSource& pages);

}  // namespace plimsoll
