// A batch from tensors as `transformers` names and shapes them, for checking numbers (`plimsoll grad`).
//
// Every one of the T positions becomes a row, padding included (key_mask 0 where attention_mask is 0), so that logits
// come out in the shape they went in. Positions are counted as transformers does: pad_id + the number of tokens so far
// that are not pad_id, pad_id for pad tokens; relative 1D positions run 0 .. T - 1.
#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"
#include "tensor/tensor.h"

namespace plimsoll {

// B pages of T tokens. Integers are i64, pixel_values f32.
struct PaddedTensors {
  TensorView input_ids;       // [B, T]
  TensorView bbox;            // [B, T, 4]
  TensorView attention_mask;  // [B, T], 0 or 1
  TensorView pixel_values;    // [B, 3, size, size]
  TensorView labels{};        // [B, T], -100 ignored; may be empty (raw() == nullptr)
  TensorView position_ids{};  // [B, T], as the model counts them; may be empty
  TensorView token_type_ids{};  // [B, T]; may be empty: zeros
};

// What the model has rows for: nothing beyond reaches a kernel.
struct PaddedLimits {
  std::int64_t vocab_size = 0;
  std::int64_t labels = 0;
  std::int64_t positions = 514;
  std::int64_t coordinates = 1024;
  std::int64_t token_types = 1;
};

// Which of the T positions become rows, and how dropout tells the samples apart.
struct PaddedRows {
  bool all = true;             // false: those alone whose attention_mask is 1, as training packs them
  std::int32_t first_key = 0;  // index of the first sample within the effective batch
};

// The images that the model takes.
struct ImageShape {
  std::int64_t size = 224;  // pixels per side
  std::int64_t patches_per_side = 14;
};

// The shape of a batch that holds `tensors` exactly. Throws DataError (naming the tensor and `where`) unless their
// types are right and fit together (data/tensor_checks.h).
BatchShape padded_batch_shape(const PaddedTensors& tensors, const ImageShape& image, const std::string& where);

// Fills `batch`, whose shape has room. Throws DataError naming tensor, sample, token, value and limit.
void pack_padded(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch,
                 const PaddedRows& rows = {});

}  // namespace plimsoll
