#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dropout.h"

namespace plimsoll {
namespace {

// Order of the scalar counts in their one array.
enum Count : std::size_t { kTextRows, kVisualRows, kPatchRows, kRows, kCounts };

}  // namespace

Batch::Batch(const BatchFormat& format, std::int64_t max_samples, std::int64_t max_text_rows)
    : format_(format), max_samples_(max_samples), max_text_rows_(max_text_rows), counts_(kCounts) {
  const std::int64_t visual = max_samples * format.visual_tokens();
  const std::int64_t rows = max_text_rows + visual;
  first_text_row_.resize(static_cast<std::size_t>(max_samples));
  const auto add = [this](std::string_view name, std::vector<std::int32_t>& array, Shape shape) {
    array.resize(static_cast<std::size_t>(shape.elements()));
    tensors_.emplace_back(name, TensorView({DType::kI32, shape}, array.data()));
  };
  add("input_ids", input_ids_, {max_text_rows});
  add("bbox", bbox_, {max_text_rows, 4});
  add("position_ids", position_ids_, {max_text_rows});
  add("token_type_ids", token_type_ids_, {max_text_rows});
  add("labels", labels_, {max_text_rows});
  add("row_source", row_source_, {rows});
  add("text_row_index", text_row_index_, {max_text_rows});
  add("visual_row_index", visual_row_index_, {visual});
  add("sample_offsets", sample_offsets_, {max_samples + 1});
  add("relative_coordinates", relative_coordinates_, {rows, 3});
  add("row_keys", row_keys_, {rows, 2});
  add("text_row_keys", text_row_keys_, {max_text_rows, 2});
  add("key_mask", key_mask_, {rows});
  pixel_values_.resize(static_cast<std::size_t>(max_samples * format.pixels()));
  tensors_.emplace_back("pixel_values", TensorView({DType::kF32, {max_samples, 3, format.input_size, format.input_size}},
                                                   pixel_values_.data()));
  constexpr std::string_view kNames[kCounts] = {"text_rows", "visual_rows", "patch_rows", "rows"};
  for (std::size_t i = 0; i < kCounts; ++i) {
    tensors_.emplace_back(kNames[i], TensorView({DType::kI32, {1}}, &counts_[i]));
  }
  clear();
}

std::size_t Batch::host_bytes(const BatchFormat& format, std::int64_t max_samples, std::int64_t max_text_rows) {
  const std::int64_t visual = max_samples * format.visual_tokens();
  const std::int64_t rows = max_text_rows + visual;
  const std::int64_t integers = max_text_rows * 12 + visual + rows * 7 + max_samples * 3 + 1;
  return static_cast<std::size_t>(4 * (integers + max_samples * format.pixels()));
}

void Batch::clear() {
  samples_ = text_rows_ = rows_ = labelled_tokens_ = 0;
  for (auto* zeros : {&input_ids_, &bbox_, &position_ids_, &token_type_ids_, &sample_offsets_, &relative_coordinates_,
                      &row_keys_, &text_row_keys_, &key_mask_, &counts_}) {
    std::fill(zeros->begin(), zeros->end(), 0);
  }
  for (auto* indices : {&row_source_, &text_row_index_, &visual_row_index_}) {
    std::fill(indices->begin(), indices->end(), -1);
  }
  std::fill(labels_.begin(), labels_.end(), kIgnoredLabel);
}

std::span<float> Batch::append(const Sample& sample) {
  const auto tokens = static_cast<std::int64_t>(sample.input_ids.size());
  check(samples_ < max_samples_ && text_rows_ + tokens <= max_text_rows_,
        fmt::format("a batch of {} samples and {} text rows has room for the next sample of {} tokens", max_samples_,
                    max_text_rows_, tokens));
  check(sample.bbox.size() == 4 * sample.input_ids.size(), "a box for each token");
  first_text_row_[static_cast<std::size_t>(samples_)] = text_rows_;
  std::int32_t real_tokens = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto row = static_cast<std::size_t>(text_rows_ + t), token = static_cast<std::size_t>(t);
    const bool padding = sample.input_ids[token] == format_.pad_token_id;
    if (!padding) ++real_tokens;
    input_ids_[row] = sample.input_ids[token];
    std::copy_n(sample.bbox.data() + 4 * token, 4, bbox_.data() + 4 * row);
    position_ids_[row] = format_.pad_token_id + (padding ? 0 : real_tokens);
    labels_[row] = sample.labels.empty() ? kIgnoredLabel : sample.labels[token];
    if (labels_[row] != kIgnoredLabel) ++labelled_tokens_;
    text_row_index_[row] = static_cast<std::int32_t>(rows_);
    text_row_keys_[2 * row] = sample.index_in_update;
    text_row_keys_[2 * row + 1] = static_cast<std::int32_t>(t);
    add_row(static_cast<std::int32_t>(row), static_cast<std::int32_t>(t), bbox_[4 * row], bbox_[4 * row + 3],
            sample.attends.empty() ? 1 : sample.attends[token], sample.index_in_update, static_cast<std::int32_t>(t));
  }
  add_visual_rows(sample.index_in_update);
  const std::span<float> pixels =
      std::span(pixel_values_)
          .subspan(static_cast<std::size_t>(samples_ * format_.pixels()), static_cast<std::size_t>(format_.pixels()));
  ++samples_;
  text_rows_ += tokens;
  for (std::int64_t i = samples_; i <= max_samples_; ++i) {
    sample_offsets_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(rows_);
  }
  counts_[kTextRows] = static_cast<std::int32_t>(text_rows_);
  counts_[kVisualRows] = static_cast<std::int32_t>(samples_ * format_.visual_tokens());
  counts_[kPatchRows] = static_cast<std::int32_t>(samples_ * format_.patches());
  counts_[kRows] = static_cast<std::int32_t>(rows_);
  return pixels;
}

void Batch::add_visual_rows(std::int32_t index_in_update) {
  const auto grid = static_cast<std::int32_t>(format_.grid());
  const auto visual = static_cast<std::int32_t>(format_.visual_tokens());
  for (std::int32_t v = 0; v < visual; ++v) {
    // Grid cell i reaches from trunc(1000 i / grid) to trunc(1000 (i + 1) / grid); the CLS token has its own box.
    const std::int32_t column = (v - 1) % grid, line = (v - 1) / grid;
    const std::int32_t x0 = v == 0 ? 1 : 1000 * column / grid;
    const std::int32_t y1 = v == 0 ? 999 : 1000 * (line + 1) / grid;
    const auto visual_row = static_cast<std::int32_t>(samples_) * visual + v;
    visual_row_index_[static_cast<std::size_t>(visual_row)] = static_cast<std::int32_t>(rows_);
    add_row(-1 - visual_row, v, x0, y1, 1, index_in_update, kVisualCoordinate + v);
  }
}

void Batch::add_row(std::int32_t source, std::int32_t position, std::int32_t x0, std::int32_t y1, std::int32_t attends,
                    std::int32_t index_in_update, std::int32_t token) {
  const auto row = static_cast<std::size_t>(rows_++);
  row_source_[row] = source;
  relative_coordinates_[3 * row] = position;
  relative_coordinates_[3 * row + 1] = x0;
  relative_coordinates_[3 * row + 2] = y1;
  key_mask_[row] = attends;
  row_keys_[2 * row] = index_in_update;
  row_keys_[2 * row + 1] = token;
}

}  // namespace plimsoll
