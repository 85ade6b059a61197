// Batch: a packed batch on the host. Tokens of all samples lie one after the other, sample by sample, text before visual,
// without padding between; capacities are fixed when the batch is made, so that its bytes are known in advance.
//
//   rows (N):   | sample 0: t0 text | V visual | sample 1: t1 text | V visual | … unused |
//   text (Nt):  | t0 | t1 | … unused |          visual (Nv): | V | V | … unused |
//
// The arrays' names are those of the graph's inputs (model/layoutlmv3.h). Unused entries of index arrays are -1, of labels
// -100, of everything else 0.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace plimsoll {

inline constexpr std::int32_t kIgnoredLabel = -100;

// What of a model decides how its batches look.
struct BatchFormat {
  std::int64_t input_size = 224;
  std::int64_t patch_size = 16;
  std::int32_t pad_token_id = 1;

  std::int64_t grid() const { return input_size / patch_size; }
  std::int64_t patches() const { return grid() * grid(); }
  std::int64_t visual_tokens() const { return patches() + 1; }                   // V
  std::int64_t pixels() const { return 3 * input_size * input_size; }  // floats an image
};

class Batch {
 public:
  // B samples and Nt text rows at most.
  Batch(const BatchFormat& format, std::int64_t max_samples, std::int64_t max_text_rows);

  // Bytes of all arrays of such a batch.
  static std::size_t host_bytes(const BatchFormat& format, std::int64_t max_samples, std::int64_t max_text_rows);

  void clear();

  // One sample's text tokens, special tokens included. Positions count up from pad_token_id + 1 over tokens that are not padding.
  struct Sample {
    std::span<const std::int32_t> input_ids;  // [t]
    std::span<const std::int32_t> bbox;       // [t, 4], 0..1000
    std::span<const std::int32_t> labels;     // [t]; empty: all ignored
    std::span<const std::int32_t> attends;    // [t]: 0 for tokens that nobody attends to (padding); empty: all 1
    std::int32_t index_in_update = 0;         // index in the effective batch, for dropout
  };
  // Appends the sample and returns where its pixel values [3, input_size, input_size] go. Throws InternalError if it does
  // not fit.
  std::span<float> append(const Sample& sample);

  std::int64_t samples() const { return samples_; }
  std::int64_t text_rows() const { return text_rows_; }
  std::int64_t labelled_tokens() const { return labelled_tokens_; }
  // First text row of a sample.
  std::int64_t first_text_row(std::int64_t sample) const { return first_text_row_[static_cast<std::size_t>(sample)]; }

  // Every array under its graph input's name. The set and the types never change.
  std::span<const std::pair<std::string_view, TensorView>> tensors() const { return tensors_; }

  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  void add_visual_rows(std::int32_t index_in_update);
  void add_row(std::int32_t source, std::int32_t position, std::int32_t x0, std::int32_t y1, std::int32_t attends,
               std::int32_t index_in_update, std::int32_t token);

  BatchFormat format_;
  std::int64_t max_samples_, max_text_rows_;
  std::int64_t samples_ = 0, text_rows_ = 0, rows_ = 0, labelled_tokens_ = 0;
  std::vector<std::int64_t> first_text_row_;
  std::vector<std::int32_t> input_ids_, bbox_, position_ids_, token_type_ids_, labels_, row_source_, text_row_index_,
      visual_row_index_, sample_offsets_, relative_coordinates_, row_keys_, text_row_keys_, key_mask_, counts_;
  std::vector<float> pixel_values_;
  std::vector<std::pair<std::string_view, TensorView>> tensors_;
};

}  // namespace plimsoll
