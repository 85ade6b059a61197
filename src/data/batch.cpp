#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/bytes.h"
#include "base/dropout.h"

namespace plimsoll {
namespace {

// The declared arrays in the order they lie in memory: integers first, pixels last and in the batch's own form.
std::vector<InputSpec> layout(const BatchShape& shape) {
  std::vector<InputSpec> arrays = shape.inputs;
  std::stable_partition(arrays.begin(), arrays.end(),
                        [](const InputSpec& input) { return input.name != input::kPixelValues; });
  if (!arrays.empty() && arrays.back().name == input::kPixelValues && shape.pixel_type == DType::kU8) {
    const std::int64_t size = shape.image.size;
    arrays.back().type = {DType::kU8, {shape.max_samples, size, size, shape.image.channels}};
  }
  return arrays;
}

// Sets row `row` of an array, if the model has it.
template <std::size_t kWidth>
void set_row(std::span<std::int32_t> array, std::int64_t row, const std::array<std::int32_t, kWidth>& values) {
  if (array.empty()) return;
  std::ranges::copy(values, array.begin() + static_cast<std::ptrdiff_t>(kWidth) * row);
}
void set_row(std::span<std::int32_t> array, std::int64_t row, std::int32_t value) {
  set_row(array, row, std::array{value});
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
  for (const InputSpec& input : layout(shape)) bytes += aligned_bytes(input.type);
  return bytes + static_cast<std::uint64_t>(shape.max_text_rows) * sizeof(std::int32_t) +
         static_cast<std::uint64_t>(shape.max_samples) * sizeof(SampleReference);
}

Batch::Batch(const BatchShape& shape, const PixelValues& values) : shape_(shape), values_(values) {
  check(shape.max_samples > 0 && shape.max_text_rows > 0, "a batch's capacity is positive");
  std::size_t bytes = 0;
  const std::vector<InputSpec> arrays = layout(shape);
  for (const InputSpec& input : arrays) {
    if (input.name != input::kPixelValues) index_bytes_ = bytes + aligned_bytes(input.type);
    bytes += aligned_bytes(input.type);
  }
  storage_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(kAlignmentBytes))));
  std::memset(storage_.get(), 0, bytes);  // touched now, so that it is resident before the first step
  std::byte* at = storage_.get();
  tensors_.reserve(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    // A name lives as long as the declaration in the shape.
    const auto declared = std::ranges::find(shape_.inputs, arrays[i].name, &InputSpec::name);
    tensors_.emplace_back(declared->name, TensorView(arrays[i].type, at));
    at += aligned_bytes(arrays[i].type);
  }
  const std::int64_t text = shape.max_text_rows, samples = shape.max_samples, rows = shape.max_rows(),
                     visual = rows - text;
  std::size_t known = 0;
  const auto take = [&](std::string_view name, std::int64_t elements) {
    const auto found = std::ranges::find(tensors_, name, &NamedTensor::first);
    if (found == tensors_.end()) return std::span<std::int32_t>();
    check(found->second.elements() == elements,
          [&] { return fmt::format("array '{}' has the batch's capacity", name); });
    ++known;
    return found->second.span<std::int32_t>();
  };
  input_ids_ = take(input::kInputIds, text);
  bbox_ = take(input::kBbox, 4 * text);
  position_ids_ = take(input::kPositionIds, text);
  token_type_ids_ = take(input::kTokenTypeIds, text);
  for (const NamedTensor& tensor : tensors_) {
    const auto declared = std::ranges::find(shape_.inputs, tensor.first, &InputSpec::name);
    if (!declared->is_target()) continue;
    const TargetForm& form = declared->target;
    check(tensor.second.elements() == samples * form.numbers(),
          [&] { return fmt::format("target '{}' has the batch's capacity", tensor.first); });
    targets_.push_back({.values = tensor.second, .kind = form.kind, .each = form.numbers()});
    ++known;
  }
  if (targets_.empty()) labels_ = take(input::kLabels, text);
  row_source_ = take(input::kRowSource, rows);
  text_row_index_ = take(input::kTextRowIndex, text);
  visual_row_index_ = take(input::kVisualRowIndex, visual);
  sample_offsets_ = take(input::kSampleOffsets, samples + 1);
  relative_coordinates_ = take(input::kRelativeCoordinates, 3 * rows);
  row_keys_ = take(input::kRowKeys, 2 * rows);
  text_row_keys_ = take(input::kTextRowKeys, 2 * text);
  key_mask_ = take(input::kKeyMask, rows);
  first_rows_ = take(input::kFirstRows, samples);
  first_row_of_ = take(input::kFirstRowOf, rows);
  last_rows_ = take(input::kLastRows, samples);
  last_row_of_ = take(input::kLastRowOf, rows);
  sample_keys_ = take(input::kSampleKeys, 2 * samples);
  if (has(input::kItemKeys)) {
    items_ = tensor(input::kItemKeys).elements() / (2 * samples);
    item_keys_ = take(input::kItemKeys, 2 * items_ * samples);
  }
  for (const NamedTensor& tensor : tensors_) {
    const auto declared = std::ranges::find(shape_.inputs, tensor.first, &InputSpec::name);
    if (!declared->constants.empty()) ++known;
  }
  if (has(input::kClassWeights)) class_weights_ = tensor(input::kClassWeights).span<float>();
  counts_ = {take(input::kTextRows, 1), take(input::kVisualRows, 1), take(input::kPatchRows, 1), take(input::kRows, 1),
             take(input::kSamples, 1)};
  if (const auto found = std::ranges::find(tensors_, input::kPixelValues, &NamedTensor::first);
      found != tensors_.end()) {
    pixels_ = found->second;
    check(pixels_.elements() == samples * shape.image.pixels(), "pixel_values have the batch's capacity");
    ++known;
  }
  check(known == tensors_.size(), "a batch knows what to fill every declared array with");
  check(!sample_offsets_.empty(), "a model knows where its samples begin");
  predicts_.assign(static_cast<std::size_t>(shape.max_text_rows), kNoWord);
  references_.reserve(static_cast<std::size_t>(shape.max_samples));
  begin();
  finish();
}

bool Batch::has(std::string_view name) const {
  return std::ranges::find(tensors_, name, &NamedTensor::first) != tensors_.end();
}

TensorView Batch::tensor(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &NamedTensor::first);
  check(found != tensors_.end(), [&] { return fmt::format("a batch has no array '{}'", name); });
  return found->second;
}

void Batch::begin(const MicroBatchInfo& info) {
  info_ = info;
  samples_ = text_rows_ = visual_rows_ = loss_terms_ = 0;
  loss_weight_ = 0;
  references_.clear();
  std::memset(storage_.get(), 0, index_bytes_);
  for (const NamedTensor& tensor : tensors_) {
    const auto declared = std::ranges::find(shape_.inputs, tensor.first, &InputSpec::name);
    if (declared->constants.empty()) continue;
    std::ranges::copy(declared->constants, tensor.second.span<float>().begin());
  }
  std::fill(labels_.begin(), labels_.end(), kIgnoredLabel);
  std::ranges::fill(first_rows_, -1);
  std::ranges::fill(first_row_of_, -1);
  std::ranges::fill(last_rows_, -1);
  std::ranges::fill(last_row_of_, -1);
  for (const Target& target : targets_) {
    if (target.values.dtype() != DType::kI32 || target.kind != TargetForm::Kind::kValue) continue;
    std::ranges::fill(target.values.span<std::int32_t>(), kIgnoredLabel);
  }
  std::fill(predicts_.begin(), predicts_.end(), kNoWord);
}

void Batch::add_text_row(const TextToken& token, std::int32_t key) {
  check(text_rows_ < shape_.max_text_rows, "a batch's capacity suffices for its text");
  const std::int64_t text = text_rows_, row = text_rows_ + visual_rows_;
  const bool is_first = row == sample_offsets_[static_cast<std::size_t>(samples_)];
  if (is_first) {
    check(samples_ < shape_.max_samples, "a batch's capacity suffices for a sample");
    set_row(first_rows_, samples_, static_cast<std::int32_t>(row));
    set_row(first_row_of_, row, static_cast<std::int32_t>(samples_));
    set_row<2>(sample_keys_, samples_, {key, token.coordinate});
  }
  set_row(input_ids_, text, token.id);
  set_row(bbox_, text, token.box);
  set_row(position_ids_, text, token.position);
  set_row(token_type_ids_, text, token.type);
  set_row(labels_, text, token.label);
  predicts_[static_cast<std::size_t>(text)] = token.predicts;
  set_row(text_row_index_, text, static_cast<std::int32_t>(row));
  set_row(row_source_, row, static_cast<std::int32_t>(text));
  set_row<3>(relative_coordinates_, row, {token.coordinate, token.box[0], token.box[3]});
  set_row<2>(row_keys_, row, {key, token.coordinate});
  set_row<2>(text_row_keys_, text, {key, token.coordinate});
  set_row(key_mask_, row, token.mask);
  // As in `transformers`, a token of padding that is part of the text represents it only if there is no other.
  const bool is_padding = shape_.token.pads && token.id == shape_.token.pad_id;
  if (token.mask != 0 && (is_first || !is_padding)) set_last_row(row);
  loss_terms_ += token.label != kIgnoredLabel ? 1 : 0;
  if (!labels_.empty()) count_class(token.label);
  ++text_rows_;
}

void Batch::set_last_row(std::int64_t row) {
  if (last_rows_.empty()) return;
  std::int32_t& last = last_rows_[static_cast<std::size_t>(samples_)];
  if (last >= 0) last_row_of_[static_cast<std::size_t>(last)] = -1;
  last = static_cast<std::int32_t>(row);
  last_row_of_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(samples_);
}

void Batch::count_class(std::int32_t label) {
  if (label == kIgnoredLabel || class_weights_.empty()) return;
  loss_weight_ += double{class_weights_[static_cast<std::size_t>(label)]};
}

void Batch::close_sample(const SampleReference& reference, std::int32_t key) {
  check(samples_ < shape_.max_samples, "a batch's capacity suffices for a sample");
  for (std::int64_t v = 0; v < shape_.image.visual_tokens(); ++v) {
    const std::int64_t visual = visual_rows_, row = text_rows_ + visual_rows_;
    set_row(visual_row_index_, visual, static_cast<std::int32_t>(row));
    set_row(row_source_, row, -1 - static_cast<std::int32_t>(visual));
    set_row(relative_coordinates_, row, visual_coordinates(v, shape_.image.patches_per_side));
    set_row<2>(row_keys_, row, {key, kVisualCoordinate + static_cast<std::int32_t>(v)});
    set_row(key_mask_, row, 1);
    ++visual_rows_;
  }
  for (std::int64_t item = 0; item < items_; ++item) {
    set_row<2>(item_keys_, samples_ * items_ + item, {key, static_cast<std::int32_t>(item)});
  }
  references_.push_back(reference);
  set_row(sample_offsets_, ++samples_, static_cast<std::int32_t>(text_rows_ + visual_rows_));
}

std::int64_t Batch::add(const EncodedExample& example, const SampleReference& reference, std::int32_t key,
                        std::int64_t pad_to) {
  const auto tokens = static_cast<std::int32_t>(example.input_ids.size());
  PositionCounter positions(shape_.token);
  for (std::int32_t t = 0; t < tokens; ++t) {
    const auto i = static_cast<std::size_t>(t);
    add_text_row({.id = example.input_ids[i],
                  .position = positions.next(example.input_ids[i]),
                  .label = example.labels[i],
                  .predicts = example.predicts[i],
                  .coordinate = t,
                  .mask = 1,
                  .box = example.bbox[i],
                  .type = shape_.token.types_pairs && example.pair_begin > 0 && t >= example.pair_begin ? 1 : 0},
                 key);
  }
  for (std::int32_t t = tokens; t < pad_to; ++t) {
    add_text_row({.id = shape_.token.pad_id,
                  .position = positions.next(shape_.token.pad_id),
                  .label = kIgnoredLabel,
                  .predicts = kNoWord,
                  .coordinate = t,
                  .mask = 0,
                  .box = {}},
                 key);
  }
  set_targets(example.targets);
  if (!targets_.empty()) loss_terms_ += example.loss_terms;
  close_sample(reference, key);
  return samples_ - 1;
}

void Batch::set_targets(std::span<const std::int32_t> values) {
  if (values.empty()) return;
  using Kind = TargetForm::Kind;
  for (const Target& target : targets_) {
    const auto each = static_cast<std::size_t>(target.each);
    check(values.size() >= each, "an example has as many targets as the task's head reads");
    if (target.kind == Kind::kValue && !class_weights_.empty()) {
      for (const std::int32_t value : values.first(each)) count_class(value);
    }
    const auto to = target.values.byte_span().subspan(4 * each * static_cast<std::size_t>(samples_), 4 * each);
    std::ranges::copy(std::as_bytes(values.first(each)), to.begin());
    if (target.kind != Kind::kValue) {
      const std::int32_t first =
          target.kind == Kind::kRow ? sample_offsets_[static_cast<std::size_t>(samples_)] : std::int32_t{0};
      for (std::int32_t& value :
           target.values.span<std::int32_t>().subspan(each * static_cast<std::size_t>(samples_), each)) {
        value = value == kIgnoredLabel ? first : first + value;
      }
    }
    values = values.subspan(each);
  }
  check(values.empty(), "an example has as many targets as the task's head reads");
}

template <typename T>
std::span<T> Batch::pixels_of(std::int64_t sample) const {
  check(sample >= 0 && sample < shape_.max_samples, "a batch's capacity suffices for a sample");
  if (pixels_.raw() == nullptr) return {};
  const auto count = static_cast<std::size_t>(shape_.image.pixels());
  return pixels_.span<T>().subspan(static_cast<std::size_t>(sample) * count, count);
}

std::span<float> Batch::pixels(std::int64_t sample) { return pixels_of<float>(sample); }
std::span<std::uint8_t> Batch::pixel_bytes(std::int64_t sample) { return pixels_of<std::uint8_t>(sample); }

void Batch::write_pixels(std::span<float> out) const {
  if (shape_.pixel_type == DType::kF32) {
    std::ranges::copy(pixels_.span<float>(), out.begin());
    return;
  }
  const auto count = static_cast<std::size_t>(shape_.image.pixels());
  for (std::int64_t b = 0; b < samples_; ++b, out = out.subspan(count)) {
    normalise(pixels_of<std::uint8_t>(b), values_, out.first(count));
  }
  std::ranges::fill(out, 0.0F);
}

void Batch::finish() {
  const auto used = static_cast<std::size_t>(samples_);
  std::ranges::fill(sample_offsets_.subspan(used), static_cast<std::int32_t>(rows()));
  if (pixels_.raw() != nullptr) {
    const std::size_t sample_bytes = pixels_.bytes() / static_cast<std::size_t>(shape_.max_samples);
    std::ranges::fill(pixels_.byte_span().subspan(used * sample_bytes), std::byte{0});
  }
  const std::int64_t counts[] = {text_rows_, visual_rows_, samples_ * shape_.image.patches(), rows(), samples_};
  for (std::size_t i = 0; i < std::size(counts); ++i) set_row(counts_[i], 0, static_cast<std::int32_t>(counts[i]));
}

std::int64_t Batch::first_text_row(std::int64_t sample) const {
  check(sample >= 0 && sample <= samples_, "a batch has such a sample");
  return sample_offsets_[static_cast<std::size_t>(sample)] - sample * shape_.image.visual_tokens();
}

}  // namespace plimsoll
