// Batch: the host arrays of one micro-batch, packed, at addresses that never change.
//
// It has the arrays that a model declares (tensor/input_spec.h), and no others. Rows of the model are packed sample
// after sample: sample b's t_b text tokens, then its V visual tokens (1 + patches; none for a model without an image);
// nothing is padded in between. Capacities are fixed at construction: B samples, Nt text rows (the largest sum of t_b),
// Nv = B V visual rows, N = Nt + Nv rows. Arrays of one element say how much of them is used.
//
//   rows (N)            | text of sample 0 | visual of 0 | text of sample 1 | visual of 1 | unused |
//   text rows (Nt)      | text of sample 0 | text of sample 1 | unused |
//   visual rows (Nv)    | visual of 0 | visual of 1 | unused |
//
// Invariant: unused elements are 0 (labels and other integer targets: -100), so that a batch's bytes depend on its
// examples alone.
//
//   Batch batch(shape, processor.values());  // train/batch_shape.h makes a model's shape
//   batch.begin(info);  dataset.load(17, scratch, example, batch.pixel_bytes(0));
//   batch.add(example, {.example = 17, .page = 4}, key);
//   batch.finish();
//   for (const auto& [name, view] : batch.tensors()) use(name, view);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "tensor/input_spec.h"
#include "tensor/tensor.h"

namespace plimsoll {

struct BatchShape {
  std::int64_t max_samples = 1;      // B
  std::int64_t max_text_rows = 512;  // Nt
  ImageForm image{};
  TokenForm token{};
  // U8: bytes [B, size, size, 3], which take a quarter of the memory and which `write_pixels` normalises. F32: in the
  // model's form.
  DType pixel_type = DType::kF32;
  // The arrays that the model declares for this many samples and text rows, sample_offsets among them.
  std::vector<InputSpec> inputs{};

  std::int64_t max_rows() const { return max_text_rows + max_samples * image.visual_tokens(); }  // N
  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// Returns the relative coordinates of visual token v for attention (0: CLS): position v, box x0, box y1. Boxes: CLS [1,
// 1, 999, 999]; cell i of a side of n from trunc(1000 i / n) to trunc(1000 (i + 1) / n) (transformers,
// modeling_layoutlmv3.py, create_visual_bbox).
std::array<std::int32_t, 3> visual_coordinates(std::int64_t visual_token, std::int64_t patches_per_side);

// Where a sample came from.
struct SampleReference {
  std::uint32_t example = 0;  // index in the data set
  std::uint32_t page = 0;
  std::uint16_t item = 0, items = 1;  // index of the page's item, such as a question, and their number
  std::uint16_t window = 0, windows = 1;
};

// Which part of the run a micro-batch is.
struct MicroBatchInfo {
  std::uint64_t epoch = 0;
  std::uint64_t update = 0;            // within the epoch
  std::uint32_t micro_batch = 0;       // within the update
  std::uint32_t micro_batches = 1;     // of the update
  std::int64_t samples_in_update = 0;  // the effective batch
  double loss_weight_in_update = 0;    // what the update's loss is divided by
  std::int64_t loss_terms_in_update = 0;  // labels, whatever their classes weigh
  std::int64_t text_rows_in_update = 0;
  // With chunks, which come twice in an update (BatchSequence): true the first time; below, the chunk's first sample
  // within the update.
  bool first_pass = false;
  std::int64_t first_sample = 0;
  friend bool operator==(const MicroBatchInfo&, const MicroBatchInfo&) = default;
};

using NamedTensor = std::pair<std::string_view, TensorView>;

class Batch {
 public:
  // `values` are the numbers that bytes represent, if pixels are bytes. Throws InternalError for an input that no batch
  // has, or with another shape than the capacity's.
  explicit Batch(const BatchShape& shape, const PixelValues& values = {});

  // Returns the bytes that a batch of this shape allocates, once.
  static std::uint64_t host_bytes(const BatchShape& shape);

  // Empties the batch; then samples are added one after the other, then it is finished. Nothing is allocated.
  void begin(const MicroBatchInfo& info = {});
  // Appends a sample's text and the description of its visual rows; returns its index, for `pixels`. `key` is the index
  // of the sample within the effective batch. Pads the text to `pad_to` tokens if that is more (pad rows have id
  // pad_id, its position, box 0, label -100, key_mask 0).
  std::int64_t add(const EncodedExample& example, const SampleReference& reference, std::int32_t key,
                   std::int64_t pad_to = 0);
  // Return a sample's pixels, to be filled by the caller: [3, size, size], or [size, size, 3] if pixels are bytes.
  // Empty without pixel_values.
  std::span<float> pixels(std::int64_t sample);
  std::span<std::uint8_t> pixel_bytes(std::int64_t sample);
  void finish();

  // Returns every declared array under its name; the views are the same in every batch.
  //   input_ids[Nt] bbox[Nt,4] position_ids[Nt] token_type_ids[Nt] labels[Nt]: text rows
  //   pixel_values f32[B,3,size,size], or u8[B,size,size,3]
  //   row_source[N]: >= 0: a text row, < 0: visual row -1 - row_source
  //   text_row_index[Nt], visual_row_index[Nv]: the row in N of each text and visual row
  //   sample_offsets[B+1]: first row in N of each sample; behind the last sample, the end again
  //   relative_coordinates[N,3]: 1D position, box x0, box y1
  //   row_keys[N,2], text_row_keys[Nt,2]: sample's index within the effective batch, token coordinate (text token t: t,
  //     visual token v: 65536 + v)
  //   key_mask[N]: 1 attend, 0 for pad tokens (and unused rows)
  //   first_rows[B]: the first row in N of each sample (-1 where no sample is); first_row_of[N]: the sample whose first
  //     row this is, -1 elsewhere; sample_keys[B,2]: the first row's row_keys
  //   last_rows[B], last_row_of[N]: the same of each sample's last row that is not padding
  //   item_keys[B E,2]: for E items of each sample, the sample's index within the effective batch and the item's number
  //   text_rows, visual_rows, patch_rows, rows, samples [1]: how much is used
  //   class_weights f32[C], rotary_frequencies f32[E/2]: the constants that are declared
  // Inputs that are targets hold the examples' targets.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  // Writes f32[B,3,size,size], whatever the batch holds; 0 where there is no sample.
  void write_pixels(std::span<float> out) const;
  bool has(std::string_view name) const;
  // Returns one of them; throws InternalError for an unknown name.
  TensorView tensor(std::string_view name) const;

  const BatchShape& shape() const { return shape_; }
  const MicroBatchInfo& info() const { return info_; }
  std::int64_t samples() const { return samples_; }
  std::int64_t text_rows() const { return text_rows_; }
  std::int64_t rows() const { return text_rows_ + samples_ * shape_.image.visual_tokens(); }
  // Returns how many terms the batch's loss sums: text rows with a label other than -100, or what the task counts.
  std::int64_t loss_terms() const { return loss_terms_; }
  // Returns the divisor of the batch's loss if it were an update of its own: its terms, or the sum of their class
  // weights.
  double loss_weight() const { return class_weights_.empty() ? static_cast<double>(loss_terms_) : loss_weight_; }
  // One for each sample.
  std::span<const SampleReference> references() const { return references_; }
  // For each text row, the word whose prediction is read from it, or kNoWord.
  std::span<const std::int32_t> predicts() const { return {predicts_.data(), static_cast<std::size_t>(text_rows_)}; }
  // Returns the first text row of a sample (for `samples()`, the end).
  std::int64_t first_text_row(std::int64_t sample) const;

 private:
  friend class PaddedBatchPacker;
  struct TextToken {
    std::int32_t id, position, label, predicts, coordinate, mask;
    Box1000 box;
    std::int32_t type = 0;
  };
  void add_text_row(const TextToken& token, std::int32_t key);
  // Makes the row the sample's last one so far, if the model reads last rows.
  void set_last_row(std::int64_t row);
  void count_class(std::int32_t label);
  // Copies a sample's targets, one input's after the other; -100 and 0 for a sample without targets.
  void set_targets(std::span<const std::int32_t> values);
  // Adds the visual rows after a sample's text, and ends the sample.
  void close_sample(const SampleReference& reference, std::int32_t key);

  template <typename T>
  std::span<T> pixels_of(std::int64_t sample) const;

  struct FreeAligned {
    void operator()(std::byte* bytes) const;
  };
  BatchShape shape_;
  std::uint64_t index_bytes_ = 0;  // of the int32 arrays, which come first
  std::unique_ptr<std::byte[], FreeAligned> storage_;
  std::vector<NamedTensor> tensors_;
  // The arrays themselves, within storage_; empty if the model does not declare them.
  std::span<std::int32_t> input_ids_, bbox_, position_ids_, token_type_ids_, labels_, row_source_, text_row_index_,
      visual_row_index_, sample_offsets_, relative_coordinates_, row_keys_, text_row_keys_, key_mask_, first_rows_,
      first_row_of_, last_rows_, last_row_of_, sample_keys_, item_keys_;
  std::int64_t items_ = 0;  // items of a sample that item_keys distinguishes
  std::array<std::span<std::int32_t>, 5> counts_;
  struct Target {
    TensorView values;
    TargetForm::Kind kind;
    std::int64_t each;  // numbers per sample
  };
  std::vector<Target> targets_;
  PixelValues values_;
  TensorView pixels_;
  std::vector<std::int32_t> predicts_;
  std::vector<SampleReference> references_;
  MicroBatchInfo info_;
  std::span<float> class_weights_;  // within storage_; empty: 1 each
  double loss_weight_ = 0;          // counted if there are class weights
  std::int64_t samples_ = 0, text_rows_ = 0, visual_rows_ = 0, loss_terms_ = 0;
};

}  // namespace plimsoll
