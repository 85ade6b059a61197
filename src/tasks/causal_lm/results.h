// A language model's results: how likely the learned tokens of texts are.
#pragma once

#include <memory>

#include "tasks/task.h"

namespace plimsoll {

// Scores perplexity, exp of the mean loss of a token (Jelinek et al. 1977), and the share of tokens that were the
// likeliest.
std::unique_ptr<Scorer> token_scorer();
std::unique_ptr<Predictions> text_predictions();

}  // namespace plimsoll
