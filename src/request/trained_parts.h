// Which parts of the model train: frozen parameters, new adapters, weights that are held in 8 or 4 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bundle/model_bundle.h"

namespace plimsoll {

struct PartsRequest {
  std::vector<std::string> freeze{};  // patterns
  std::int64_t lora_rank = 0;         // 0: no new adapters
  double lora_alpha = 0;              // 0: twice the rank
  double lora_dropout = 0;
  std::vector<std::string> lora_targets{};   // empty: every linear map of the encoder
  std::vector<std::string> lora_excluded{};  // except these
  std::vector<std::int64_t> lora_layers{};   // of the encoder, from 0; empty: all
  std::vector<std::string> saved_modules{};  // trained in full beside adapters, and saved with them
  bool lora_rslora = false, lora_dora = false;
  LoraPatterns rank_pattern{}, alpha_pattern{};
  DType frozen_weights = DType::kF32;  // Q8 or NF4: frozen weights are held in 8 or 4 bits
};

// Gives the model new adapters and freezes the requested parameters. Throws UsageError for requests that make no sense:
// patterns that match nothing, adapters on a preset or on other adapters, nothing left to train.
void choose_trained_parts(ModelBundle& bundle, const PartsRequest& request);

}  // namespace plimsoll
