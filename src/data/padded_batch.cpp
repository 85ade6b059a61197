#include "data/padded_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plimsoll {
namespace {

DataError bad_tensor(std::string what, const std::string& where, std::string_view name, std::string found,
                     std::string allowed) {
  return DataError({.what = std::move(what),
                    .where = fmt::format("{}, tensor '{}'", where, name),
                    .found = std::move(found),
                    .allowed = std::move(allowed),
                    .remedy = "write the batch as transformers' processor makes it"});
}

std::int64_t integer_at(const TensorView& tensor, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return tensor.dtype() == DType::kI64 ? tensor.span<std::int64_t>()[i] : tensor.span<std::int32_t>()[i];
}

void need_shape(const TensorView& tensor, std::string_view name, const Shape& shape, bool integers,
                const std::string& where) {
  const bool type_fits =
      integers ? tensor.dtype() == DType::kI64 || tensor.dtype() == DType::kI32 : tensor.dtype() == DType::kF32;
  if (type_fits && tensor.shape() == shape) return;
  throw bad_tensor("a tensor of a batch has the wrong type or shape", where, name, to_string(tensor.type()),
                   fmt::format("{}{}", integers ? "I64" : "F32", to_string(shape)));
}

}  // namespace

BatchShape padded_batch_shape(const PaddedTensors& tensors, std::int64_t patches_per_side, const std::string& where) {
  const Shape& ids = tensors.input_ids.shape();
  const Shape& pixels = tensors.pixel_values.shape();
  if (ids.rank() != 2 || ids.elements() == 0) {
    throw bad_tensor("a tensor of a batch has the wrong type or shape", where, "input_ids",
                     to_string(tensors.input_ids.type()), "I64[pages, tokens]");
  }
  const std::int64_t batch = ids[0], tokens = ids[1];
  need_shape(tensors.input_ids, "input_ids", Shape{batch, tokens}, true, where);
  need_shape(tensors.bbox, "bbox", Shape{batch, tokens, 4}, true, where);
  need_shape(tensors.attention_mask, "attention_mask", Shape{batch, tokens}, true, where);
  if (tensors.labels.raw() != nullptr) need_shape(tensors.labels, "labels", Shape{batch, tokens}, true, where);
  const std::int64_t size = pixels.rank() == 4 ? pixels[2] : 0;
  if (size <= 0 || size % patches_per_side != 0) {
    throw bad_tensor("a tensor of a batch has the wrong type or shape", where, "pixel_values",
                     to_string(tensors.pixel_values.type()),
                     fmt::format("F32[{}, 3, size, size], size a multiple of {}", batch, patches_per_side));
  }
  need_shape(tensors.pixel_values, "pixel_values", Shape{batch, 3, size, size}, false, where);
  return {.max_samples = batch,
          .max_text_rows = batch * tokens,
          .patches_per_side = patches_per_side,
          .image_size = size,
          .channels = 3};
}

// Knows Batch's rows; a class so that Batch can befriend it.
class PaddedBatchPacker {
 public:
  static void pack(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch) {
    const std::int64_t samples = tensors.input_ids.shape()[0], length = tensors.input_ids.shape()[1];
    batch.begin({.samples_in_update = samples});
    for (std::int64_t b = 0; b < samples; ++b) {
      const auto read = [&](const TensorView& tensor, std::string_view name, std::int64_t token, std::int64_t index,
                            std::int64_t low, std::int64_t high) {
        const std::int64_t value = integer_at(tensor, index);
        if (value >= low && value <= high) return static_cast<std::int32_t>(value);
        throw bad_tensor("a number in a batch is out of range", fmt::format("{}, page {}, token {}", where, b, token),
                         name, fmt::format("{}", value), fmt::format("{} to {}", low, high));
      };
      const auto key = static_cast<std::int32_t>(b);
      std::int32_t counted = 0;
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t at = b * length + t;
        Batch::TextToken token{};
        token.id = read(tensors.input_ids, "input_ids", t, at, 0, limits.vocab_size - 1);
        token.position = token.id == batch.pad_id_ ? batch.pad_id_ : batch.pad_id_ + ++counted;
        if (token.position >= limits.positions) {
          throw bad_tensor("a page has more tokens than the model has positions",
                           fmt::format("{}, page {}, token {}", where, b, t), "input_ids",
                           fmt::format("position {}", token.position), fmt::format("below {}", limits.positions));
        }
        for (std::size_t i = 0; i < 4; ++i) {
          token.box[i] =
              read(tensors.bbox, "bbox", t, 4 * at + static_cast<std::int64_t>(i), 0, limits.coordinates - 1);
        }
        token.mask = read(tensors.attention_mask, "attention_mask", t, at, 0, 1);
        token.label = kIgnoredLabel;
        if (tensors.labels.raw() != nullptr && integer_at(tensors.labels, at) != kIgnoredLabel) {
          token.label = read(tensors.labels, "labels", t, at, 0, limits.labels - 1);
        }
        token.predicts = kNoWord;
        token.coordinate = static_cast<std::int32_t>(t);
        batch.add_text_row(token, key);
      }
      batch.close_sample({.example = static_cast<std::uint32_t>(b), .page = static_cast<std::uint32_t>(b)}, key);
      const auto pixels =
          tensors.pixel_values.span<float>().subspan(static_cast<std::size_t>(b * batch.shape_.pixels_per_sample()),
                                                     static_cast<std::size_t>(batch.shape_.pixels_per_sample()));
      const auto broken = std::find_if(pixels.begin(), pixels.end(), [](float value) { return !std::isfinite(value); });
      if (broken != pixels.end()) {
        throw bad_tensor("a number in a batch is not finite", fmt::format("{}, page {}", where, b), "pixel_values",
                         fmt::format("{} at element {}", *broken, broken - pixels.begin()), "finite numbers");
      }
      std::copy(pixels.begin(), pixels.end(), batch.pixels(b).begin());
    }
    batch.finish();
    batch.info_.labelled_in_update = batch.labelled_tokens();
  }
};

void pack_padded(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch) {
  const BatchShape shape = padded_batch_shape(tensors, batch.shape().patches_per_side, where);
  check(shape.max_samples <= batch.shape().max_samples && shape.max_text_rows <= batch.shape().max_text_rows &&
            shape.image_size == batch.shape().image_size,
        "the batch has room for the tensors");
  PaddedBatchPacker::pack(tensors, limits, where, batch);
}

}  // namespace plimsoll
