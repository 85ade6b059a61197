// The head that labels tokens, as in `transformers` for token classification.
#pragma once

#include <cstdint>
#include <memory>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// Returns that encoder's model for C labels. Its head reads `labels` i32[Nt], -100 if there is none; its outputs are
// logits f32[Nt, C] and the sum of cross-entropies.
ModelDefinition token_classification(std::shared_ptr<const Encoder> encoder, std::int64_t labels,
                                     const LossOptions& loss = {});

}  // namespace plimsoll
