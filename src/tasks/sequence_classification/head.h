// The head that labels whole pages, as `transformers` has it for sequence classification.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// `problem_type` as configs name it. Which loss the head has follows from it: cross-entropy, binary cross-entropy, mean
// squared error.
enum class ClassProblem : std::uint8_t { kSingleLabel, kMultiLabel, kRegression };
// A config that does not say has one label of several, as it is where one label is all a page can have.
ClassProblem class_problem(const TaskConfig& config);
std::string_view class_problem_name(ClassProblem problem);

// The model of that encoder for C labels. Its head reads `labels`: i32[B], -100 where there is none, for a single
// label; f32[B, C] otherwise. It gives logits f32[B, C] and the sum of what the problem's loss is a mean of.
ModelDefinition sequence_classification(std::shared_ptr<const Encoder> encoder, const TaskConfig& config);

}  // namespace plimsoll
