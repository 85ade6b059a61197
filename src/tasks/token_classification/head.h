// The head that labels tokens, as `transformers` has it for token classification.
#pragma once

#include <cstdint>
#include <memory>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// The model of that encoder for C labels. Its head reads `labels` i32[Nt], -100 where there is none; it gives logits
// f32[Nt, C] and the sum of cross-entropies.
ModelDefinition token_classification(std::shared_ptr<const Encoder> encoder, std::int64_t labels,
                                     const LossOptions& loss = {});

}  // namespace plimsoll
