// A batch given as a file: safetensors, .npz or a folder of .npy, with the tensors that `transformers` takes, checked
// and packed.
#pragma once

#include <filesystem>
#include <memory>

#include "bundle/model_bundle.h"
#include "data/batch.h"
#include "data/padded_batch.h"

namespace plimsoll {

// `input_ids` I64 [B, T]; if the model reads them, `bbox` I64 [B, T, 4] and `pixel_values` F32 [B, 3, Y, X]; if present
// `attention_mask`, `labels`, `position_ids` and `token_type_ids`, I64 [B, T]; any other tensor is refused by its name.
// Each of the T positions becomes a row, including padding; or, as in training, only those whose attention_mask is 1,
// in a batch that has room for just them (a multiple of 16 text rows). Throws DataError naming file, tensor, place,
// value and range for anything that does not fit the model.
std::unique_ptr<Batch> read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle,
                                       bool with_padding = true);
// Does the same into a batch that has room.
void read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle, const PaddedRows& rows,
                     Batch& batch);

// Writes such a file, safetensors: a sample's tokens, then padding up to the longest sample's. Holds some KiB at a
// time.
void write_batch_file(const std::filesystem::path& path, const Batch& batch, const EncoderFacts& facts);

}  // namespace plimsoll
