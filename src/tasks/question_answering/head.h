// The head that finds answers, as in `transformers` for question answering.
#pragma once

#include <memory>

#include "model/definition.h"

namespace plimsoll {

// Its head reads `start_positions` and `end_positions` i32[B] as the columns of `span_positions` i32[B, 2]: rows of
// their sample, -100 if there is none. Its outputs are logits f32[N, 2] for every row, visual ones included, and the
// sum of both cross-entropies over each sample's rows.
inline constexpr const char* kSpanPositions = "span_positions";
ModelDefinition question_answering(std::shared_ptr<const Encoder> encoder);

}  // namespace plimsoll
