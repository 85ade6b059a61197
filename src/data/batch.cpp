#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "base/dropout.h"

namespace plimsoll {
namespace {

// The arrays in the order they lie in memory: name, type. int32 first, pixels last.
std::vector<std::pair<std::string_view, TensorType>> layout(const BatchShape& shape) {
  const std::int64_t text = shape.max_text_rows, visual = shape.max_visual_rows(), rows = shape.max_rows();
  const auto ints = [](std::initializer_list<std::int64_t> dims) { return TensorType{DType::kI32, Shape(dims)}; };
  const std::int64_t size = shape.image_size;
  const Shape pixels = shape.pixel_type == DType::kU8 ? Shape{shape.max_samples, size, size, shape.channels}
                                                      : Shape{shape.max_samples, shape.channels, size, size};
  return {{"input_ids", ints({text})},
          {"bbox", ints({text, 4})},
          {"position_ids", ints({text})},
          {"token_type_ids", ints({text})},
          {"labels", ints({text})},
          {"row_source", ints({rows})},
          {"text_row_index", ints({text})},
          {"visual_row_index", ints({visual})},
          {"sample_offsets", ints({shape.max_samples + 1})},
          {"relative_coordinates", ints({rows, 3})},
          {"row_keys", ints({rows, 2})},
          {"text_row_keys", ints({text, 2})},
          {"key_mask", ints({rows})},
          {"text_rows", ints({1})},
          {"visual_rows", ints({1})},
          {"patch_rows", ints({1})},
          {"rows", ints({1})},
          {"samples", ints({1})},
          {"pixel_values", {shape.pixel_type, pixels}}};
}

std::size_t aligned_bytes(const TensorType& type) { return round_up(type.bytes(), kAlignmentBytes); }

}  // namespace

std::array<std::int32_t, 3> visual_coordinates(std::int64_t visual_token, std::int64_t patches_per_side) {
  const auto position = static_cast<std::int32_t>(visual_token);
  if (visual_token == 0) return {position, 1, 999};
  const std::int64_t column = (visual_token - 1) % patches_per_side, row = (visual_token - 1) / patches_per_side;
  return {position, static_cast<std::int32_t>(1000 * column / patches_per_side),
          static_cast<std::int32_t>(1000 * (row + 1) / patches_per_side)};
}

void Batch::FreeAligned::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t(kAlignmentBytes));
}

std::uint64_t Batch::host_bytes(const BatchShape& shape) {
  std::uint64_t bytes = 0;
  for (const auto& [name, type] : layout(shape)) bytes += aligned_bytes(type);
  return bytes + static_cast<std::uint64_t>(shape.max_text_rows) * sizeof(std::int32_t) +
         static_cast<std::uint64_t>(shape.max_samples) * sizeof(SampleReference);
}

Batch::Batch(const BatchShape& shape, std::int32_t pad_id, const PixelValues& values)
    : shape_(shape), pad_id_(pad_id), values_(values) {
  check(shape.max_samples > 0 && shape.max_text_rows > 0 && shape.patches_per_side > 0 && shape.image_size > 0,
        "a batch's capacity is positive");
  std::size_t bytes = 0;
  const auto arrays = layout(shape);
  for (const auto& [name, type] : arrays) {
    if (name == "pixel_values") index_bytes_ = bytes;
    bytes += aligned_bytes(type);
  }
  storage_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(kAlignmentBytes))));
  std::memset(storage_.get(), 0, bytes);  // touched now, so that it is resident before the first step
  std::byte* at = storage_.get();
  for (const auto& [name, type] : arrays) {
    tensors_.emplace_back(name, TensorView(type, at));
    at += aligned_bytes(type);
  }
  const auto ints = [this](std::string_view name) { return tensor(name).span<std::int32_t>(); };
  input_ids_ = ints("input_ids");
  bbox_ = ints("bbox");
  position_ids_ = ints("position_ids");
  token_type_ids_ = ints("token_type_ids");
  labels_ = ints("labels");
  row_source_ = ints("row_source");
  text_row_index_ = ints("text_row_index");
  visual_row_index_ = ints("visual_row_index");
  sample_offsets_ = ints("sample_offsets");
  relative_coordinates_ = ints("relative_coordinates");
  row_keys_ = ints("row_keys");
  text_row_keys_ = ints("text_row_keys");
  key_mask_ = ints("key_mask");
  counts_ = {ints("text_rows"), ints("visual_rows"), ints("patch_rows"), ints("rows"), ints("samples")};
  pixels_ = tensor("pixel_values");
  predicts_.assign(static_cast<std::size_t>(shape.max_text_rows), kNoWord);
  references_.reserve(static_cast<std::size_t>(shape.max_samples));
  begin();
  finish();
}

TensorView Batch::tensor(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [name](const NamedTensor& each) { return each.first == name; });
  check(found != tensors_.end(), [&] { return fmt::format("a batch has no array '{}'", name); });
  return found->second;
}

void Batch::begin(const MicroBatchInfo& info) {
  info_ = info;
  samples_ = text_rows_ = visual_rows_ = labelled_tokens_ = 0;
  references_.clear();
  std::memset(storage_.get(), 0, index_bytes_);
  std::fill(labels_.begin(), labels_.end(), kIgnoredLabel);
  std::fill(predicts_.begin(), predicts_.end(), kNoWord);
}

void Batch::add_text_row(const TextToken& token, std::int32_t key) {
  const auto text = static_cast<std::size_t>(text_rows_), row = static_cast<std::size_t>(text_rows_ + visual_rows_);
  check(text < input_ids_.size(), "a batch's capacity suffices for its text");
  input_ids_[text] = token.id;
  std::copy(token.box.begin(), token.box.end(), bbox_.begin() + static_cast<std::ptrdiff_t>(4 * text));
  position_ids_[text] = token.position;
  token_type_ids_[text] = token.type;
  labels_[text] = token.label;
  predicts_[text] = token.predicts;
  text_row_index_[text] = static_cast<std::int32_t>(row);
  row_source_[row] = static_cast<std::int32_t>(text);
  relative_coordinates_[3 * row] = token.coordinate;
  relative_coordinates_[3 * row + 1] = token.box[0];
  relative_coordinates_[3 * row + 2] = token.box[3];
  row_keys_[2 * row] = text_row_keys_[2 * text] = key;
  row_keys_[2 * row + 1] = text_row_keys_[2 * text + 1] = token.coordinate;
  key_mask_[row] = token.mask;
  labelled_tokens_ += token.label != kIgnoredLabel ? 1 : 0;
  ++text_rows_;
}

void Batch::close_sample(const SampleReference& reference, std::int32_t key) {
  check(samples_ < shape_.max_samples, "a batch's capacity suffices for a sample");
  for (std::int64_t v = 0; v < shape_.visual_tokens(); ++v) {
    const auto visual = static_cast<std::size_t>(visual_rows_),
               row = static_cast<std::size_t>(text_rows_ + visual_rows_);
    visual_row_index_[visual] = static_cast<std::int32_t>(row);
    row_source_[row] = -1 - static_cast<std::int32_t>(visual);
    const auto coordinates = visual_coordinates(v, shape_.patches_per_side);
    std::copy(coordinates.begin(), coordinates.end(),
              relative_coordinates_.begin() + static_cast<std::ptrdiff_t>(3 * row));
    row_keys_[2 * row] = key;
    row_keys_[2 * row + 1] = kVisualCoordinate + static_cast<std::int32_t>(v);
    key_mask_[row] = 1;
    ++visual_rows_;
  }
  references_.push_back(reference);
  sample_offsets_[static_cast<std::size_t>(++samples_)] = static_cast<std::int32_t>(text_rows_ + visual_rows_);
}

std::int64_t Batch::add(const EncodedExample& example, const SampleReference& reference, std::int32_t key,
                        std::int64_t pad_to) {
  const auto tokens = static_cast<std::int32_t>(example.input_ids.size());
  std::int32_t counted = 0;
  for (std::int32_t t = 0; t < tokens; ++t) {
    const auto i = static_cast<std::size_t>(t);
    // As transformers counts: a word that reads "<pad>" has the padding position, and those behind it do not count it.
    const bool is_pad = example.input_ids[i] == pad_id_;
    add_text_row({.id = example.input_ids[i],
                  .position = is_pad ? pad_id_ : pad_id_ + ++counted,
                  .label = example.labels[i],
                  .predicts = example.predicts[i],
                  .coordinate = t,
                  .mask = 1,
                  .box = example.bbox[i]},
                 key);
  }
  for (std::int32_t t = tokens; t < pad_to; ++t) {
    add_text_row({.id = pad_id_,
                  .position = pad_id_,
                  .label = kIgnoredLabel,
                  .predicts = kNoWord,
                  .coordinate = t,
                  .mask = 0,
                  .box = {}},
                 key);
  }
  close_sample(reference, key);
  return samples_ - 1;
}

template <typename T>
std::span<T> Batch::pixels_of(std::int64_t sample) const {
  check(sample >= 0 && sample < shape_.max_samples, "a batch's capacity suffices for a sample");
  const auto count = static_cast<std::size_t>(shape_.pixels_per_sample());
  return pixels_.span<T>().subspan(static_cast<std::size_t>(sample) * count, count);
}

std::span<float> Batch::pixels(std::int64_t sample) { return pixels_of<float>(sample); }
std::span<std::uint8_t> Batch::pixel_bytes(std::int64_t sample) { return pixels_of<std::uint8_t>(sample); }

void Batch::write_pixels(std::span<float> out) const {
  if (shape_.pixel_type == DType::kF32) {
    std::ranges::copy(pixels_.span<float>(), out.begin());
    return;
  }
  const auto count = static_cast<std::size_t>(shape_.pixels_per_sample());
  for (std::int64_t b = 0; b < samples_; ++b, out = out.subspan(count)) {
    normalise(pixels_of<std::uint8_t>(b), values_, out.first(count));
  }
  std::ranges::fill(out, 0.0F);
}

void Batch::finish() {
  const auto used = static_cast<std::size_t>(samples_);
  std::fill(sample_offsets_.begin() + static_cast<std::ptrdiff_t>(used), sample_offsets_.end(),
            static_cast<std::int32_t>(rows()));
  const std::size_t sample_bytes = pixels_.bytes() / static_cast<std::size_t>(shape_.max_samples);
  std::ranges::fill(pixels_.byte_span().subspan(used * sample_bytes), std::byte{0});
  const std::int64_t counts[] = {text_rows_, visual_rows_, samples_ * shape_.patches(), rows(), samples_};
  for (std::size_t i = 0; i < std::size(counts); ++i) counts_[i][0] = static_cast<std::int32_t>(counts[i]);
}

std::int64_t Batch::first_text_row(std::int64_t sample) const {
  check(sample >= 0 && sample <= samples_, "a batch has such a sample");
  return sample_offsets_[static_cast<std::size_t>(sample)] - sample * shape_.visual_tokens();
}

}  // namespace plimsoll
