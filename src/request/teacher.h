// The model that a run learns from beside its labels, opened and compared with the one that learns.
//
//   train.teacher = open_teacher({.model = "run"}, bundle, train.distillation);
#pragma once

#include <memory>
#include <string>

#include "bundle/model_bundle.h"
#include "tensor/dtype.h"
#include "transform/distillation.h"

namespace plimsoll {

struct TeacherRequest {
  std::string model{};          // directory; empty: none
  DType weights = DType::kF32;  // how they are held; Q8 or NF4: and activations are rounded where that is faster
};

// Throws UsageError where the two do not read and predict the same: family, tokenizer, image, task, labels; where
// `distillation` asks for something that they cannot be compared in; and what open_trained_model throws.
std::shared_ptr<const ModelBundle> open_teacher(const TeacherRequest& request, const ModelBundle& student,
                                                const DistillationOptions& distillation);

// Whether the last layers of both have as many heads, so that relations are those of the same heads.
bool have_same_last_heads(const ModelBundle& a, const ModelBundle& b);

}  // namespace plimsoll
