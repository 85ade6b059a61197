// InputSpec: an array that a model's graph reads anew for each micro-batch. A family and a task declare theirs once
// (model/definition.h); graphs, batches (data/batch.h), calibration and checks follow from the declaration. The names
// below are those that a batch can fill; data/batch.h says what each holds.
//
//   const InputSpec ids{.name = std::string(input::kInputIds), .type = {DType::kI32, {1024}}};
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace plimsoll {

namespace input {
inline constexpr std::string_view kInputIds = "input_ids", kBbox = "bbox", kPositionIds = "position_ids",
                                  kTokenTypeIds = "token_type_ids", kPixelValues = "pixel_values", kLabels = "labels",
                                  kRowSource = "row_source", kTextRowIndex = "text_row_index",
                                  kVisualRowIndex = "visual_row_index", kRowKeys = "row_keys",
                                  kTextRowKeys = "text_row_keys", kSampleOffsets = "sample_offsets",
                                  kRelativeCoordinates = "relative_coordinates", kKeyMask = "key_mask",
                                  kTextRows = "text_rows", kVisualRows = "visual_rows", kPatchRows = "patch_rows",
                                  kRows = "rows", kFirstRows = "first_rows", kFirstRowOf = "first_row_of",
                                  kLastRows = "last_rows", kLastRowOf = "last_row_of", kSampleKeys = "sample_keys",
                                  kSamples = "samples", kItemKeys = "item_keys", kClassWeights = "class_weights",
                                  kRotaryFrequencies = "rotary_frequencies";
// The scalars that every model's graph reads besides its arrays; the step sets them, not the batch.
inline constexpr std::string_view kDropoutKey = "dropout_key", kLossScale = "loss_scale";
}  // namespace input

// Which of a task's targets an array holds: the same count of numbers for each sample, taken from the sample's example
// (data/targets.h).
struct TargetForm {
  enum class Kind : std::uint8_t {
    kValue,  // the loss compares with it and sums over it; integers equal to -100 do not count
    kIndex,  // the graph looks it up; -100 (none) becomes 0
    kRow,    // a token of the sample; the batch holds its row in N, and the sample's first row where there is none
  };
  // The names that `transformers` gives them: one for the whole array, or one for each column. Empty: no target.
  std::vector<std::string> names{};
  Shape shape{};  // the shape of a sample's numbers under each name, as in `transformers`; rank 0: one number
  Kind kind = Kind::kValue;
  std::int64_t limit = 0;  // integers are below it, or -100 (none); 0: they are tokens of the sample

  std::int64_t numbers() const { return static_cast<std::int64_t>(names.size()) * shape.elements(); }
  friend bool operator==(const TargetForm&, const TargetForm&) = default;
};

struct InputSpec {
  // What the array holds in a full micro-batch, as far as it affects time; calibration fills it this way.
  enum class Full : std::uint8_t {
    kZeros,
    kOnes,
    kCount,    // one element: `count`
    kOffsets,  // from 0 to `count` in even steps: all samples have equally many rows
  };
  std::string name;
  TensorType type;
  Full full = Full::kZeros;
  std::int64_t count = 0;
  TargetForm target{};
  bool next_row = false;           // labels: each row has the label that files give to the next row
  std::vector<float> constants{};  // its content in every batch

  bool is_target() const { return !target.names.empty(); }
  friend bool operator==(const InputSpec&, const InputSpec&) = default;
};

// The picture of a page that an encoder sees; `size` is 0 if there is none.
struct ImageForm {
  std::int64_t size = 0;  // pixels per side
  std::int64_t patches_per_side = 0;
  std::int64_t channels = 3;

  std::int64_t patches() const { return patches_per_side * patches_per_side; }  // P
  std::int64_t visual_tokens() const { return size == 0 ? 0 : 1 + patches(); }  // V
  std::int64_t pixels() const { return channels * size * size; }
  friend bool operator==(const ImageForm&, const ImageForm&) = default;
};

// How an encoder numbers tokens.
struct TokenForm {
  std::int32_t pad_id = 1;
  bool pads = true;  // false: the config names no such token
  // The position of a page's first token. 0 (BERT): every token counts. Otherwise (RoBERTa) it is pad_id + 1: padding
  // has position pad_id, wherever it is, and does not count.
  std::int32_t first_position = 2;
  // True (BERT): the tokens of the second of two texts have type 1; otherwise all have type 0.
  bool types_pairs = false;
  // Every coordinate in the boxes of </s> and of separators, as in the model's training; padding and <s> have zeros.
  std::int32_t separator_box = 0;
  friend bool operator==(const TokenForm&, const TokenForm&) = default;
};

// Returns the positions of a sample's tokens, one by one, as `transformers` computes them
// (create_position_ids_from_input_ids; BERT: torch.arange).
class PositionCounter {
 public:
  explicit PositionCounter(const TokenForm& form) : form_(form), next_(form.first_position) {}
  std::int32_t next(std::int64_t id) { return form_.first_position > 0 && id == form_.pad_id ? form_.pad_id : next_++; }

 private:
  TokenForm form_;
  std::int32_t next_;
};

}  // namespace plimsoll
