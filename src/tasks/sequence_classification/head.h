// The head that labels whole pages, as in `transformers` for sequence classification.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// The config's `problem_type`. It determines the head's loss: cross-entropy, binary cross-entropy, mean squared error.
enum class ClassProblem : std::uint8_t { kSingleLabel, kMultiLabel, kRegression };
// A config that does not say has kSingleLabel, one label out of several.
ClassProblem class_problem(const TaskConfig& config);
std::string_view class_problem_name(ClassProblem problem);

// Returns that encoder's model for C labels. Its head reads `labels`: i32[B], -100 if there is none, for a single
// label; f32[B, C] otherwise. Its outputs are logits f32[B, C], and the sum over which the problem's loss is a mean.
ModelDefinition sequence_classification(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

}  // namespace plimsoll
