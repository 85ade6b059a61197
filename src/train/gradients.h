// One forward and backward of a given batch, with dropout off, to check the numbers against `transformers`.
#pragma once

#include <filesystem>

#include "backend/backend.h"
#include "bundle/model_bundle.h"

namespace plimsoll {

struct GradientOptions {
  bool train_relative_position_tables = false;
  DType precision = DType::kF32;  // of the encoder's activations, as in training
};

struct GradientReport {
  double loss = 0;
  std::int64_t samples = 0, tokens = 0, loss_terms = 0, parameters = 0;
};

// `batch_file`: safetensors with `input_ids` I64 [B, T], `bbox` I64 [B, T, 4], `attention_mask` I64 [B, T] (optional),
// `pixel_values` F32 [B, 3, Y, X], `labels` I64 [B, T] (optional: no loss then, gradients 0), `token_type_ids` and
// `position_ids` I64 [B, T] (optional), as `transformers` names and shapes them; other tensors are refused. All T
// positions are computed, including padding, so that logits can be compared one to one. `output_file`: `loss` F32 [],
// `logits` F32 [B, T, C], and the gradient of every parameter that trains under its name, F32. With F16, gradients are
// not scaled: small ones are 0. Throws DataError naming tensor, index, value and range for anything that does not fit.
GradientReport compute_gradients(const ModelBundle& bundle, const std::filesystem::path& batch_file,
                                 const std::filesystem::path& output_file, Backend& backend,
                                 const GradientOptions& options = {});

}  // namespace plimsoll
