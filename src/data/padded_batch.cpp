#include "data/padded_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/tensor_checks.h"

namespace plimsoll {
namespace {

std::int64_t integer_at(const TensorView& tensor, std::int64_t index) {
  return tensor.span<std::int64_t>()[static_cast<std::size_t>(index)];
}

void refuse(const Findings& findings, const std::string& where) {
  if (findings.empty()) return;
  std::string others;
  for (const std::string& line : findings.to_lines(Severity::kError)) {
    if (line.starts_with(fmt::format("[{}]", findings.sorted().front().kind))) continue;
    others += "\n           " + line;
  }
  throw findings.to_error(where, others.empty() ? "of the same kind" : others);
}

}  // namespace

BatchShape padded_batch_shape(const PaddedTensors& tensors, const ImageShape& image, const std::string& where) {
  Findings findings;
  check_tensor_types(tensors, image.size, where, findings);
  refuse(findings, where);
  const std::int64_t batch = tensors.input_ids.shape()[0], tokens = tensors.input_ids.shape()[1];
  return {.max_samples = batch,
          .max_text_rows = batch * tokens,
          .patches_per_side = image.patches_per_side,
          .image_size = image.size,
          .channels = 3};
}

// Fills Batch's rows; it is a class so that Batch can befriend it.
class PaddedBatchPacker {
 public:
  // Precondition: the values have been checked.
  static void pack(const PaddedTensors& tensors, const PaddedRows& rows, Batch& batch) {
    const std::int64_t samples = tensors.input_ids.shape()[0], length = tensors.input_ids.shape()[1];
    batch.begin({.samples_in_update = samples});
    const auto read = [](const TensorView& tensor, std::int64_t index) {
      return static_cast<std::int32_t>(integer_at(tensor, index));
    };
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::int32_t key = rows.first_key + static_cast<std::int32_t>(b);
      std::int32_t counted = 0;
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t at = b * length + t;
        if (!rows.all && read(tensors.attention_mask, at) == 0) continue;
        Batch::TextToken token{};
        token.id = read(tensors.input_ids, at);
        token.position = token.id == batch.pad_id_ ? batch.pad_id_ : batch.pad_id_ + ++counted;
        for (std::size_t i = 0; i < 4; ++i) token.box[i] = read(tensors.bbox, 4 * at + static_cast<std::int64_t>(i));
        token.mask = read(tensors.attention_mask, at);
        token.label = tensors.labels.raw() != nullptr ? read(tensors.labels, at) : kIgnoredLabel;
        token.type = tensors.token_type_ids.raw() != nullptr ? read(tensors.token_type_ids, at) : 0;
        token.predicts = kNoWord;
        token.coordinate = static_cast<std::int32_t>(t);
        batch.add_text_row(token, key);
      }
      batch.close_sample({.example = static_cast<std::uint32_t>(b), .page = static_cast<std::uint32_t>(b)}, key);
      const auto pixels =
          tensors.pixel_values.span<float>().subspan(static_cast<std::size_t>(b * batch.shape_.pixels_per_sample()),
                                                     static_cast<std::size_t>(batch.shape_.pixels_per_sample()));
      std::copy(pixels.begin(), pixels.end(), batch.pixels(b).begin());
    }
    batch.finish();
    batch.info_.labelled_in_update = batch.labelled_tokens();
  }
  static std::int32_t pad_id(const Batch& batch) { return batch.pad_id_; }
};

void pack_padded(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch,
                 const PaddedRows& rows) {
  const BatchShape shape =
      padded_batch_shape(tensors, {batch.shape().image_size, batch.shape().patches_per_side}, where);
  check(shape.max_samples <= batch.shape().max_samples &&
            (!rows.all || shape.max_text_rows <= batch.shape().max_text_rows),
        "the batch has room for the tensors");
  Findings findings;
  check_tensor_values(tensors, limits, PaddedBatchPacker::pad_id(batch), where, findings);
  refuse(findings, where);
  PaddedBatchPacker::pack(tensors, rows, batch);
}

}  // namespace plimsoll
