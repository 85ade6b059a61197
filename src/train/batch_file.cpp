#include "train/batch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "data/padded_batch.h"
#include "formats/npy.h"
#include "formats/safetensors.h"

namespace plimsoll {
namespace {

// A folder with an array a file: input_ids.npy, bbox.npy, …
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

// The file's tensors in memory, as pack_padded takes them.
class BatchFile {
 public:
  explicit BatchFile(const std::filesystem::path& path) : file_(open_tensors(path)) {
    refuse_unknown();
    file_->verify();
  }

  TensorView required(const std::string& name) { return read(file_->at(name)); }
  TensorView optional(const std::string& name) {
    const TensorEntry* entry = file_->find(name);
    return entry == nullptr ? TensorView() : read(*entry);
  }
  // A mask of ones where the file has none, as `transformers` assumes.
  TensorView mask(const TensorView& input_ids) {
    if (const TensorView found = optional("attention_mask"); found.raw() != nullptr) return found;
    std::vector<std::byte>& bytes = memory_.emplace_back(static_cast<std::size_t>(input_ids.elements()) * 8);
    const TensorView ones({DType::kI64, input_ids.shape()}, bytes.data());
    std::ranges::fill(ones.span<std::int64_t>(), 1);
    return ones;
  }

 private:
  // An input that were passed over would give numbers that are not those of the batch as it was given.
  void refuse_unknown() const {
    static constexpr std::array<std::string_view, 7> kInputs = {
        "input_ids", "bbox", "attention_mask", "pixel_values", "labels", "position_ids", "token_type_ids"};
    for (const TensorEntry& entry : file_->entries()) {
      if (std::ranges::find(kInputs, entry.name) != kInputs.end()) continue;
      const bool is_embeds = entry.name == "inputs_embeds";
      throw DataError({.what = "the batch has an unused tensor",
                       .where = fmt::format("{}, tensor '{}'", file_->path().string(), entry.name),
                       .found = to_string(entry.type),
                       .allowed = fmt::format("{}", fmt::join(kInputs, ", ")),
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
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace

namespace {

PaddedTensors padded_tensors(BatchFile& file) {
  PaddedTensors tensors;
  tensors.input_ids = file.required("input_ids");
  tensors.bbox = file.required("bbox");
  tensors.attention_mask = file.mask(tensors.input_ids);
  tensors.pixel_values = file.required("pixel_values");
  tensors.labels = file.optional("labels");
  tensors.position_ids = file.optional("position_ids");
  tensors.token_type_ids = file.optional("token_type_ids");
  return tensors;
}

PaddedLimits padded_limits(const ModelBundle& bundle) {
  const EncoderFacts facts = bundle.facts();
  return {.vocab_size = facts.vocab_size,
          .labels = bundle.config.num_labels(),
          .positions = facts.positions,
          .coordinates = facts.coordinates,
          .token_types = facts.token_types};
}

}  // namespace

std::unique_ptr<Batch> read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle,
                                       bool with_padding) {
  constexpr std::size_t kRowStep = 16;
  BatchFile file(path);
  const PaddedTensors tensors = padded_tensors(file);
  const EncoderFacts facts = bundle.facts();
  BatchShape shape = padded_batch_shape(tensors, {facts.image.size, facts.image.patches_per_side}, path.string());
  if (!with_padding) {
    const auto real = std::ranges::count(tensors.attention_mask.span<std::int64_t>(), 1);
    shape.max_text_rows = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(real), kRowStep));
  }
  auto batch = std::make_unique<Batch>(shape, static_cast<std::int32_t>(facts.pad_token_id));
  pack_padded(tensors, padded_limits(bundle), path.string(), *batch, {.all = with_padding});
  return batch;
}

void read_batch_file(const std::filesystem::path& path, const ModelBundle& bundle, const PaddedRows& rows,
                     Batch& batch) {
  BatchFile file(path);
  pack_padded(padded_tensors(file), padded_limits(bundle), path.string(), batch, rows);
}

void write_batch_file(const std::filesystem::path& path, const Batch& batch, const EncoderFacts& facts) {
  const std::int64_t samples = batch.samples();
  const std::span<const std::int32_t> offsets = batch.tensor("sample_offsets").span<std::int32_t>();
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < samples; ++b) {
    longest = std::max(longest, batch.first_text_row(b + 1) - batch.first_text_row(b));
  }
  const TensorType text{DType::kI64, {samples, longest}};
  const std::int64_t size = batch.shape().image_size;
  SafetensorsWriter writer(path, {{"input_ids", text},
                                  {"bbox", {DType::kI64, {samples, longest, 4}}},
                                  {"attention_mask", text},
                                  {"labels", text},
                                  {"pixel_values", {DType::kF32, {samples, batch.shape().channels, size, size}}}});
  std::vector<std::int64_t> row(static_cast<std::size_t>(4 * longest));
  // `width` numbers a token; rows of the model for the mask, of text for all else.
  const auto write = [&](std::string_view name, std::int64_t width, std::int64_t padding, bool by_model_row) {
    const std::span<const std::int32_t> values = batch.tensor(name).span<std::int32_t>();
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::int64_t first = by_model_row ? offsets[static_cast<std::size_t>(b)] : batch.first_text_row(b);
      const std::int64_t count = width * (batch.first_text_row(b + 1) - batch.first_text_row(b));
      std::ranges::fill(row, padding);
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(width * first), count, row.begin());
      writer.write(std::as_bytes(std::span(row).first(static_cast<std::size_t>(width * longest))));
    }
  };
  write("input_ids", 1, facts.pad_token_id, false);
  write("bbox", 4, 0, false);
  write("key_mask", 1, 0, true);
  write("labels", 1, kIgnoredLabel, false);
  std::vector<float> pixels(static_cast<std::size_t>(batch.shape().max_samples * batch.shape().pixels_per_sample()));
  batch.write_pixels(pixels);
  pixels.resize(static_cast<std::size_t>(samples * batch.shape().pixels_per_sample()));
  writer.write(std::as_bytes(std::span(pixels)));
  writer.finish();
}

}  // namespace plimsoll
