// Makes a batch from tensors with the names and shapes of `transformers`, for checking numbers (`plimsoll grad`).
//
// Every one of the T positions becomes a row, padding included (key_mask 0 where attention_mask is 0), so logits have
// the shape of the inputs. Positions are counted as in transformers (PositionCounter); relative 1D positions run 0 .. T
// - 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"
#include "tensor/tensor.h"

namespace plimsoll {

// A target of a task as the model declares it for B samples, and its tensors, one for each of its names; empty: not
// given. Integers are i64.
struct PaddedTarget {
  InputSpec input;
  std::vector<TensorView> tensors{};
};

// Returns the type of a target's tensors in `transformers` for B samples: integers are i64, one number per sample is
// [B].
TensorType target_type(const InputSpec& target, std::int64_t samples);

// Tensors of B pages of T tokens. Integers are i64, pixel_values f32.
struct PaddedTensors {
  TensorView input_ids;                 // [B, T]
  TensorView bbox{};                    // [B, T, 4]; empty for a model without boxes
  TensorView attention_mask;            // [B, T], 0 or 1
  TensorView pixel_values{};            // [B, 3, size, size]; empty for a model without an image
  TensorView labels{};                  // [B, T], -100 ignored; may be empty (raw() == nullptr)
  bool labels_of_next = false;          // a row's label is the next token's (InputSpec::next_row)
  TensorView position_ids{};            // [B, T], counted as the model does; may be empty
  TensorView token_type_ids{};          // [B, T]; may be empty: zeros
  std::vector<PaddedTarget> targets{};  // if the task does not label tokens
};

// The numbers of rows that the model has; a kernel never sees a larger index.
struct PaddedLimits {
  std::int64_t vocab_size = 0;
  std::int64_t labels = 0;
  std::int64_t positions = 514;
  std::int64_t coordinates = 1024;
  std::int64_t token_types = 1;
};

// Says which of the T positions become rows, and how dropout distinguishes the samples.
struct PaddedRows {
  bool all = true;             // false: only those whose attention_mask is 1, as in training
  std::int32_t first_key = 0;  // index of the first sample in the effective batch
};

// How many pages the tensors have, and how many tokens each.
struct PaddedSize {
  std::int64_t samples = 0, tokens = 0;
};

// Throws DataError (naming the tensor and `where`) unless the tensors' types are right and fit together
// (data/tensor_checks.h).
PaddedSize padded_size(const PaddedTensors& tensors, const ImageForm& image, const std::string& where);

// Fills `batch`, whose shape must be large enough. Throws DataError naming tensor, sample, token, value and limit.
void pack_padded(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch,
                 const PaddedRows& rows = {});

}  // namespace plimsoll
