// The head of a causal language model: a score for each token of the vocabulary, in every row.
#pragma once

#include <memory>

#include "model/definition.h"
#include "model/task_config.h"

namespace plimsoll {

// The head reads `labels`: i32[Nt], the token that follows each row, -100 where none is learned. Its logits output is
// f32[Nt, 2]: the loss of each row's label, and whether no other token has a larger logit; the logits of a whole
// vocabulary never exist at once (transform/chunked_loss.h). The loss may be smoothed or focused; scores are not.
// Throws UsageError for a family without such a head.
ModelDefinition causal_language_model(std::shared_ptr<const Encoder> encoder, const LossOptions& loss = {});

// Returns a model with the same parameters that writes text: it has logits f32[B, V] for the token after each sample's
// last row, and no loss. It reads last_rows and last_row_of (tensor/input_spec.h).
ModelDefinition next_token_model(std::shared_ptr<const Encoder> encoder);

}  // namespace plimsoll
