// A teacher beside a student: the teacher's forward runs first in the same step, and losses compare what both compute,
// so that one plan has room for both. The teacher's activations die before the student's are made, except those that
// are compared.
//
//   const Distilled both = distil({&student, loss, trained, layers}, {&teacher, logits, teacher_layers}, {});
//   verify(both.graph);   // whose losses seed the gradients of both.trained
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// The prefix of the names of the teacher's parameters and nodes.
inline constexpr std::string_view kTeacherPrefix = "teacher.";
// The input of losses of hidden states and relations, f32[1]: the update's factor of the loss divided by the rows of
// the whole update, those of pictures and padding among them. `loss_scale` is divided by labels, of which a page may
// have one and a sentence as many as words.
inline constexpr std::string_view kRowLossScaleInput = "row_loss_scale";
// The input of the loss of predictions where classes have weights, f32[1]: the factor divided by the labels of the
// update. `loss_scale` is divided by the sum of their weights, which the teacher's loss does not know.
inline constexpr std::string_view kLabelLossScaleInput = "label_loss_scale";

// Factors of the losses that are added to the labels' loss; 0 leaves a loss out.
struct DistillationOptions {
  // Kullback-Leibler divergence of the predictions at the temperature (Hinton et al. 2015), a mean over labelled rows.
  double logits = 1;
  double temperature = 2;
  // Mean squared difference of the states that end mapped layers, over columns, layers and rows: student's layer l of L
  // learns from teacher's layer l T / L of T.
  double hidden = 4;
  // How rows relate, by the last layer's queries, keys and values (MiniLMv2, Wang et al. 2021): a mean over the three,
  // heads and rows.
  double relations = 4;
  friend bool operator==(const DistillationOptions&, const DistillationOptions&) = default;
};

struct StudentGraph {
  const Graph* graph = nullptr;
  ValueId loss = kNoValue;
  std::vector<ValueId> trained{};
  std::set<std::string> layers{};  // names of the nodes that end layers
};
// The teacher's forward graph, with the same inputs.
struct TeacherGraph {
  const Graph* graph = nullptr;
  ValueId logits = kNoValue;
  std::set<std::string> layers{};
};

// Where the teacher's values come from in each step.
enum class TeacherValues : std::uint8_t {
  kComputed,  // by the teacher's nodes, before the student's
  kInputs     // the host brings them: inputs, with kTeacherPrefix before the values' names
};

struct Distilled {
  Graph graph;
  ValueId loss = kNoValue;        // the sum of all, an output
  std::vector<ValueId> losses{};  // each seeds a gradient
  std::vector<ValueId> trained{};
};

// Returns why these two cannot be compared with these options; empty if they can. A hidden loss needs states of one
// width, a loss of logits a cross-entropy over the same classes, relations attention in both.
std::string distillation_fault(const StudentGraph& student, const TeacherGraph& teacher,
                               const DistillationOptions& options);

// Returns the values of the teacher's graph that the student is compared with, ascending.
std::set<ValueId> compared_values(const StudentGraph& student, const TeacherGraph& teacher,
                                  const DistillationOptions& options);

// Throws InternalError with distillation_fault's text if that is not empty.
Distilled distil(const StudentGraph& student, const TeacherGraph& teacher, const DistillationOptions& options,
                 TeacherValues values = TeacherValues::kComputed);

}  // namespace plimsoll
