// The head that labels tokens, as `transformers` has it for token classification.
#pragma once

#include <cstdint>

#include "model/definition.h"

namespace plimsoll {

struct TokenHeadForm {
  std::int64_t labels = 0;        // C
  double dropout = 0;             // of the encoder's last hidden states
  bool mlp = false;               // LayoutLMv3's from ten labels on: dropout, dense, tanh, dropout, out_proj
  double classifier_dropout = 0;  // within it
  double initializer_range = 0.02;
};

// Reads `labels` i32[Nt], -100 where there is none; gives logits f32[Nt, C] and the sum of cross-entropies.
std::shared_ptr<const Head> token_head(const TokenHeadForm& form);

}  // namespace plimsoll
