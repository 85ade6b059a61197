// Checks the tensors of a batch, in the shapes of `transformers`, before any of them is used: types and shapes first,
// then values. All faults are reported, not only the first.
//
//   Findings findings;
//   check_tensor_types(tensors, image_size, "batch.npz", findings);
//   if (findings.empty()) check_tensor_values(tensors, limits, token, "batch.npz", findings);
//
// Kinds, all errors. Types: "tensor-dtype" (float64 for float32, int32 for int64, …), "tensor-transposed" ([S, B] for
// [B, S]), "tensor-shape". Values: "token-outside", "box-outside", "mask-value", "label-outside", "position-outside",
// "position-differs", "token-type-outside", "too-many-tokens", "not-finite".
#pragma once

#include <cstdint>
#include <string>

#include "data/findings.h"
#include "data/padded_batch.h"

namespace plimsoll {

// Returns the number at a place of a tensor of I64.
inline std::int64_t integer_at(const TensorView& tensor, std::int64_t index) {
  return tensor.span<std::int64_t>()[static_cast<std::size_t>(index)];
}

// `where` is the file; `image_size` the model's pixels per side, 0 for a model without an image. Missing optional
// tensors have raw() == nullptr.
void check_tensor_types(const PaddedTensors& tensors, std::int64_t image_size, const std::string& where,
                        Findings& findings);

// Precondition: the types are correct.
void check_tensor_values(const PaddedTensors& tensors, const PaddedLimits& limits, const TokenForm& token,
                         const std::string& where, Findings& findings);

}  // namespace plimsoll
