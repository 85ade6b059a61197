#include "data/padded_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "data/tensor_checks.h"

namespace plimsoll {
namespace {

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

TensorType target_type(const InputSpec& target, std::int64_t samples) {
  std::vector<std::int64_t> dims = {samples};
  dims.insert(dims.end(), target.target.shape.dims().begin(), target.target.shape.dims().end());
  return {target.type.dtype == DType::kI32 ? DType::kI64 : DType::kF32, Shape(dims)};
}

PaddedSize padded_size(const PaddedTensors& tensors, const ImageForm& image, const std::string& where) {
  Findings findings;
  check_tensor_types(tensors, image.size, where, findings);
  refuse(findings, where);
  return {.samples = tensors.input_ids.shape()[0], .tokens = tensors.input_ids.shape()[1]};
}

// Returns over how many numbers a loss takes the mean: all except integers equal to -100.
std::int64_t terms_of(const TensorView& target) {
  if (target.dtype() != DType::kI64) return target.elements();
  return std::ranges::count_if(target.span<std::int64_t>(), [](std::int64_t value) { return value != kIgnoredLabel; });
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
      PositionCounter positions(batch.shape_.token);
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t at = b * length + t;
        if (!rows.all && read(tensors.attention_mask, at) == 0) continue;
        Batch::TextToken token{};
        token.id = read(tensors.input_ids, at);
        token.position = positions.next(token.id);
        for (std::int64_t i = 0; tensors.bbox.raw() != nullptr && i < 4; ++i) {
          token.box[static_cast<std::size_t>(i)] = read(tensors.bbox, 4 * at + i);
        }
        token.mask = read(tensors.attention_mask, at);
        const std::int64_t label_at = tensors.labels_of_next ? at + 1 : at;
        const bool labelled = tensors.labels.raw() != nullptr && label_at < (b + 1) * length;
        token.label = labelled ? read(tensors.labels, label_at) : kIgnoredLabel;
        token.type = tensors.token_type_ids.raw() != nullptr ? read(tensors.token_type_ids, at) : 0;
        token.predicts = kNoWord;
        token.coordinate = static_cast<std::int32_t>(t);
        batch.add_text_row(token, key);
      }
      set_targets(tensors, b, batch);
      batch.close_sample({.example = static_cast<std::uint32_t>(b), .page = static_cast<std::uint32_t>(b)}, key);
      if (batch.pixels_.raw() == nullptr) continue;
      const auto count = static_cast<std::size_t>(batch.shape_.image.pixels());
      std::ranges::copy(tensors.pixel_values.span<float>().subspan(static_cast<std::size_t>(b) * count, count),
                        batch.pixels(b).begin());
    }
    batch.finish();
    for (const PaddedTarget& target : tensors.targets) {
      if (target.input.target.kind != TargetForm::Kind::kValue) continue;
      for (const TensorView& tensor : target.tensors) {
        if (tensor.raw() != nullptr) batch.loss_terms_ += terms_of(tensor);
      }
    }
    batch.info_.loss_weight_in_update = batch.loss_weight();
  }

 private:
  // Returns the targets of sample b, in the form of an example.
  static void set_targets(const PaddedTensors& tensors, std::int64_t b, Batch& batch) {
    std::vector<std::int32_t> values;
    for (const auto& [input, views] : tensors.targets) {
      const std::int64_t each = input.target.shape.elements();
      for (const TensorView& tensor : views) {
        for (std::int64_t i = b * each; i < (b + 1) * each; ++i) {
          if (input.type.dtype == DType::kF32) {
            values.push_back(tensor.raw() == nullptr ? 0 : std::bit_cast<std::int32_t>(tensor.data<float>()[i]));
          } else {
            values.push_back(tensor.raw() == nullptr ? kIgnoredLabel
                                                     : static_cast<std::int32_t>(integer_at(tensor, i)));
          }
        }
      }
    }
    batch.set_targets(values);
  }
};

void pack_padded(const PaddedTensors& tensors, const PaddedLimits& limits, const std::string& where, Batch& batch,
                 const PaddedRows& rows) {
  const PaddedSize size = padded_size(tensors, batch.shape().image, where);
  check(size.samples <= batch.shape().max_samples &&
            (!rows.all || size.samples * size.tokens <= batch.shape().max_text_rows),
        "the batch has room for the tensors");
  Findings findings;
  check_tensor_values(tensors, limits, batch.shape().token, where, findings);
  refuse(findings, where);
  PaddedBatchPacker::pack(tensors, rows, batch);
}

}  // namespace plimsoll
