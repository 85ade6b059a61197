#include "train/batch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "data/padded_batch.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "train/batch_shape.h"

namespace plimsoll {
namespace {

// A folder with one array per file: input_ids.npy, bbox.npy, …
class NpyFolder : public TensorSource {
 public:
  explicit NpyFolder(const std::filesystem::path& path) : TensorSource(path) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".npy") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    std::vector<TensorEntry> entries;
    for (const std::filesystem::path& file : files) {
      entries.push_back({file.stem().string(), readers_.emplace_back(file).type()});
    }
    set_entries(std::move(entries));
  }

 private:
  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override {
    check(first_element == 0, "an array is read whole");
    readers_[index].read(destination);
  }

  std::vector<NpyReader> readers_;
};

std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::make_unique<NpyFolder>(path);
  if (path.extension() == ".npz") return std::make_unique<NpzReader>(path);
  if (path.extension() != ".npy") return std::make_unique<SafetensorsReader>(path);
  throw DataError(
      {.what = "a batch needs several arrays",
       .where = path.string(),
       .found = "a .npy file",
       .allowed = "a .safetensors or .npz file, or a folder with input_ids.npy, bbox.npy, pixel_values.npy, …",
       .remedy = "pass the folder that holds the arrays"});
}

// Returns the names in `transformers` of what a model reads from a batch.
std::vector<std::string> names_of(const ModelDefinition& model) {
  std::vector<std::string> names = {std::string(input::kInputIds), "attention_mask"};
  const std::vector<InputSpec> inputs = model.inputs({}, DType::kF32);
  for (const std::string_view name :
       {input::kBbox, input::kPixelValues, input::kLabels, input::kPositionIds, input::kTokenTypeIds}) {
    if (std::ranges::find(inputs, name, &InputSpec::name) != inputs.end()) names.emplace_back(name);
  }
  for (const InputSpec& input : inputs) {
    for (const std::string& name : input.target.names) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// The file's tensors in memory, in the form that pack_padded needs.
class BatchFile {
 public:
  BatchFile(const std::filesystem::path& path, const ModelDefinition& model)
      : file_(open_tensors(path)), names_(names_of(model)) {
    refuse_unknown();
    file_->verify();
  }

  // Returns an empty view if the model has no such input.
  TensorView required(std::string_view name) {
    return std::ranges::find(names_, name) == names_.end() ? TensorView() : read(file_->at(std::string(name)));
  }
  TensorView optional(std::string_view given) {
    const std::string name(given);
    const TensorEntry* entry = file_->find(name);
    return entry == nullptr ? TensorView() : read(*entry);
  }
  // Returns a mask of ones if the file has none, as in `transformers`.
  TensorView mask(const TensorView& input_ids) {
    if (const TensorView found = optional("attention_mask"); found.raw() != nullptr) return found;
    std::vector<std::byte>& bytes = memory_.emplace_back(static_cast<std::size_t>(input_ids.elements()) * 8);
    const TensorView ones({DType::kI64, input_ids.shape()}, bytes.data());
    std::ranges::fill(ones.span<std::int64_t>(), 1);
    return ones;
  }

 private:
  // If an input were ignored, the numbers would not be those of the given batch.
  void refuse_unknown() const {
    for (const TensorEntry& entry : file_->entries()) {
      if (std::ranges::find(names_, entry.name) != names_.end()) continue;
      const bool is_embeds = entry.name == "inputs_embeds";
      throw DataError({.what = "the batch has an unused tensor",
                       .where = fmt::format("{}, tensor '{}'", file_->path().string(), entry.name),
                       .found = to_string(entry.type),
                       .allowed = fmt::format("{}", fmt::join(names_, ", ")),
                       .remedy = is_embeds ? "pass input_ids: precomputed embeddings are not supported"
                                           : "remove it from the file"});
    }
  }

  TensorView read(const TensorEntry& entry) {
    std::vector<std::byte>& bytes = memory_.emplace_back(entry.type.bytes());
    file_->read(entry.name, bytes);
    return {entry.type, bytes.data()};
  }

  std::unique_ptr<TensorSource> file_;
  std::vector<std::string> names_;
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace

namespace {

// Returns how many examples this many samples of the encoder are; the last one may be incomplete.
std::int64_t examples_of(std::int64_t samples, const ModelDefinition& model) {
  return (samples + model.samples_per_example() - 1) / model.samples_per_example();
}

PaddedTensors padded_tensors(BatchFile& file, const ModelDefinition& model) {
  const TensorView ids = file.required(input::kInputIds);
  PaddedTensors tensors{.input_ids = ids,
                        .bbox = file.required(input::kBbox),
                        .attention_mask = file.mask(ids),
                        .pixel_values = file.required(input::kPixelValues),
                        .position_ids = file.optional(input::kPositionIds),
                        .token_type_ids = file.optional(input::kTokenTypeIds)};
  for (const InputSpec& input : model.inputs({.samples = examples_of(ids.shape()[0], model)}, DType::kF32)) {
    tensors.labels_of_next = tensors.labels_of_next || input.next_row;
    if (!input.is_target()) continue;
    PaddedTarget& target = tensors.targets.emplace_back(PaddedTarget{.input = input});
    for (const std::string& name : input.target.names) target.tensors.push_back(file.optional(name));
  }
  if (tensors.targets.empty()) tensors.labels = file.optional(input::kLabels);
  return tensors;
}

PaddedLimits padded_limits(const ModelBundle& bundle) {
  const EncoderFacts facts = bundle.facts();
  return {.vocab_size = facts.vocab_size,
          .labels = bundle.task().reads_text() ? facts.vocab_size : bundle.config.task.num_labels(),
          .positions = facts.positions,
          .coordinates = facts.coordinates,
          .token_types = facts.token_types};
}

}  // namespace

std::unique_ptr<Batch> read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle,
                                       bool with_padding) {
  constexpr std::size_t kRowStep = 16;
  BatchFile file(path, bundle.definition());
  const PaddedTensors tensors = padded_tensors(file, bundle.definition());
  const PaddedSize size = padded_size(tensors, bundle.facts().image, path.string());
  if (size.samples % bundle.definition().samples_per_example() != 0) {
    throw DataError({.what = "a page has no partner",
                     .where = path.string(),
                     .found = counted(size.samples, "page"),
                     .allowed = "an even number: pages 2 k and 2 k + 1 are a pair",
                     .remedy = "write both pages of each pair"});
  }
  ModelCapacity capacity{.samples = examples_of(size.samples, bundle.definition()),
                         .text_rows = size.samples * size.tokens};
  if (!with_padding) {
    const auto real = std::ranges::count(tensors.attention_mask.span<std::int64_t>(), 1);
    capacity.text_rows = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(real), kRowStep));
  }
  auto batch = std::make_unique<Batch>(batch_shape(bundle.definition(), capacity));
  pack_padded(tensors, padded_limits(bundle), path.string(), *batch, {.all = with_padding});
  return batch;
}

void read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle, const PaddedRows& rows,
                     Batch& batch) {
  BatchFile file(path, bundle.definition());
  pack_padded(padded_tensors(file, bundle.definition()), padded_limits(bundle), path.string(), batch, rows);
}

namespace {

// Writes a target's tensors: the whole array, or column after column.
void write_target(SafetensorsWriter& writer, const TargetForm& form, const TensorView& target,
                  std::span<const std::int32_t> sample_offsets, std::int64_t samples) {
  const std::int64_t each = form.numbers(), width = form.shape.elements();
  for (std::int64_t column = 0; column < each / width; ++column) {
    for (std::int64_t b = 0; b < samples; ++b) {
      // Rows of the batch are converted back to tokens of the sample.
      const bool is_row = form.kind == TargetForm::Kind::kRow;
      const std::int64_t first = is_row ? sample_offsets[static_cast<std::size_t>(b)] : 0;
      for (std::int64_t i = b * each + column * width; i < b * each + (column + 1) * width; ++i) {
        const std::int64_t wide = target.dtype() == DType::kI32 ? target.data<std::int32_t>()[i] - first : 0;
        const auto bytes = target.dtype() == DType::kI32 ? std::as_bytes(std::span(&wide, 1))
                                                         : std::as_bytes(std::span(target.data<float>() + i, 1));
        writer.write(bytes);
      }
    }
  }
}

}  // namespace

void write_batch_file(const std::filesystem::path& path, const Batch& batch, const EncoderFacts& facts) {
  const std::int64_t samples = batch.samples();
  const std::span<const std::int32_t> offsets = batch.tensor(input::kSampleOffsets).span<std::int32_t>();
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < samples; ++b) {
    longest = std::max(longest, batch.first_text_row(b + 1) - batch.first_text_row(b));
  }
  const TensorType text{DType::kI64, {samples, longest}};
  const std::int64_t size = batch.shape().image.size;
  const bool has_boxes = batch.has(input::kBbox), has_pixels = batch.has(input::kPixelValues);
  std::vector<TensorDeclaration> tensors = {{std::string(input::kInputIds), text}};
  if (has_boxes) tensors.push_back({std::string(input::kBbox), {DType::kI64, {samples, longest, 4}}});
  tensors.push_back({"attention_mask", text});
  std::vector<const InputSpec*> targets;
  bool labels_of_next = false;
  for (const InputSpec& input : batch.shape().inputs) {
    labels_of_next = labels_of_next || input.next_row;
    if (input.is_target()) targets.push_back(&input);
  }
  if (targets.empty()) tensors.push_back({std::string(input::kLabels), text});
  for (const InputSpec* target : targets) {
    for (const std::string& name : target->target.names) tensors.push_back({name, target_type(*target, samples)});
  }
  const TensorType images{DType::kF32, {samples, batch.shape().image.channels, size, size}};
  if (has_pixels) tensors.push_back({std::string(input::kPixelValues), images});
  SafetensorsWriter writer(path, tensors);
  std::vector<std::int64_t> row(static_cast<std::size_t>(4 * longest));
  // Writes `width` numbers per token, from the model's rows for the mask, from text rows otherwise; with `one_on`, each
  // is written one token later.
  const auto write = [&](std::string_view name, std::int64_t width, std::int64_t padding, bool by_model_row,
                         bool one_on = false) {
    const std::span<const std::int32_t> values = batch.tensor(name).span<std::int32_t>();
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::int64_t first = by_model_row ? offsets[static_cast<std::size_t>(b)] : batch.first_text_row(b);
      const std::int64_t count = width * (batch.first_text_row(b + 1) - batch.first_text_row(b));
      std::ranges::fill(row, padding);
      const std::int64_t shift = one_on ? std::min<std::int64_t>(width, count) : 0;
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(width * first), count - shift,
                  row.begin() + static_cast<std::ptrdiff_t>(shift));
      writer.write(std::as_bytes(std::span(row).first(static_cast<std::size_t>(width * longest))));
    }
  };
  write(input::kInputIds, 1, facts.token.pad_id, false);
  if (has_boxes) write(input::kBbox, 4, 0, false);
  write(input::kKeyMask, 1, 0, true);
  if (targets.empty()) write(input::kLabels, 1, kIgnoredLabel, false, labels_of_next);
  for (const InputSpec* target : targets) {
    write_target(writer, target->target, batch.tensor(target->name), offsets, samples);
  }
  if (!has_pixels) {
    writer.finish();
    return;
  }
  std::vector<float> pixels(static_cast<std::size_t>(batch.shape().max_samples * batch.shape().image.pixels()));
  batch.write_pixels(pixels);
  pixels.resize(static_cast<std::size_t>(samples * batch.shape().image.pixels()));
  writer.write(std::as_bytes(std::span(pixels)));
  writer.finish();
}

}  // namespace plimsoll
