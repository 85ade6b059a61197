// The tensors of a batch as `transformers` shapes them, checked before any of them is used: first what they are, then
// what is in them. All faults are found, not the first alone.
//
//   Findings findings;
//   check_tensor_types(tensors, image_size, "batch.npz", findings);
//   if (findings.empty()) check_tensor_values(tensors, limits, pad_id, "batch.npz", findings);
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

// `where`: the file; `image_size`: pixels per side that the model takes. Missing optional tensors have raw() == nullptr.
void check_tensor_types(const PaddedTensors& tensors, std::int64_t image_size, const std::string& where,
                        Findings& findings);

// Precondition: the types are right.
void check_tensor_values(const PaddedTensors& tensors, const PaddedLimits& limits, std::int64_t pad_id,
                         const std::string& where, Findings& findings);

}  // namespace plimsoll
