#include "formats/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "formats/checksums.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/torch_pickle.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 4> kLookedFor{"model.safetensors", "model.safetensors.index.json",
                                                     "pytorch_model.bin", "pytorch_model.bin.index.json"};
constexpr std::uint64_t kMaxIndexBytes = 64 * kMiB;
constexpr std::string_view kIndexSuffix = ".index.json";

std::unique_ptr<TensorSource> open_one(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return std::make_unique<SafetensorsReader>(path);
  return std::make_unique<TorchPickleReader>(path);
}

// Returns tensor names and their shards, in the index's order.
std::vector<std::pair<std::string, std::string>> read_index(const std::filesystem::path& path) {
  const auto refuse = [&path](std::string what, std::string found) {
    throw DataError({.what = std::move(what),
                     .where = path.string(),
                     .found = std::move(found),
                     .allowed = R"({"weight_map": {"tensor": "file beside the index"}})",
                     .remedy = "the index is damaged: get it again"});
  };
  // JSON libraries silently keep the last of two equal keys.
  std::set<std::string> names;
  const auto refuse_twins = [&](int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& key) {
    if (event != nlohmann::ordered_json::parse_event_t::key) return true;
    if (depth == 1) names.clear();
    if (depth == 2 && !names.insert(key.get<std::string>()).second) {
      refuse("a shard index names a tensor twice", fmt::format("'{}'", key.get<std::string>()));
    }
    return true;
  };
  const std::string text = read_text_file(path, kMaxIndexBytes);
  if (nests_too_deep(text)) refuse("a shard index nests too deep", "more than " + counted(kMaxJsonDepth, "level"));
  nlohmann::ordered_json index;
  try {
    index = nlohmann::ordered_json::parse(text, refuse_twins);
  } catch (const nlohmann::json::exception& error) {
    refuse("a shard index is not JSON", json_fault(error));
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    refuse("a shard index has no weight_map", "");
  }
  std::vector<std::pair<std::string, std::string>> map;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) refuse("a shard index names no file", fmt::format("'{}'", name));
    const std::string shard = file.get<std::string>();
    if (shard.empty() || shard != std::filesystem::path(shard).filename() || shard == "." || shard == ".." ||
        shard.find('\0') != std::string::npos) {
      refuse("a shard index names a file elsewhere", fmt::format("'{}'", shard));
    }
    map.emplace_back(name, shard);
  }
  if (map.empty()) refuse("a shard index names no tensors", "");
  return map;
}

// Widens n 16-bit numbers in the upper half of `destination` to its n floats. Float i ends at byte 4i + 4, number i + 1
// begins at 2n + 2i + 2, so none is overwritten before it is read, as i < n.
template <float (*Widen)(std::uint16_t)>
void widen_in_place(std::span<float> destination) {
  auto* bytes = reinterpret_cast<std::byte*>(destination.data());
  const std::size_t n = destination.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t narrow = 0;
    std::memcpy(&narrow, bytes + 2 * n + 2 * i, sizeof narrow);
    const float wide = Widen(narrow);
    std::memcpy(bytes + 4 * i, &wide, sizeof wide);
  }
}

// The tensors that an index names, in its order.
class ShardedSource final : public TensorSource {
 public:
  explicit ShardedSource(const std::filesystem::path& index);

  void verify() const override {
    for (const auto& shard : shards_) shard->verify();
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& shard : shards_) paths.push_back(shard->path());
    return paths;
  }

 private:
  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override {
    const TensorSource& shard = *shards_[places_[index].shard];
    shard.read_elements(shard.entries()[places_[index].entry], first_element, destination);
  }
  std::optional<StoredTensor> stored_at(std::size_t index) const override {
    const TensorSource& shard = *shards_[places_[index].shard];
    return shard.stored(shard.entries()[places_[index].entry].name);
  }

  struct Place {
    std::size_t shard = 0;
    std::size_t entry = 0;  // index into that shard's entries()
  };
  std::vector<std::unique_ptr<TensorSource>> shards_;
  std::vector<Place> places_;  // one for each entry
};

ShardedSource::ShardedSource(const std::filesystem::path& index) : TensorSource(index) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, file] : read_index(index)) {
    const std::filesystem::path path = index.parent_path() / file;
    auto shard = std::find_if(shards_.begin(), shards_.end(), [&](const auto& known) { return known->path() == path; });
    if (shard == shards_.end()) shard = shards_.insert(shard, open_one(path));
    const TensorEntry& entry = (*shard)->at(name);
    places_.push_back({static_cast<std::size_t>(shard - shards_.begin()),
                       static_cast<std::size_t>(&entry - (*shard)->entries().data())});
    entries.push_back(entry);
  }
  set_entries(std::move(entries));
}

}  // namespace

WeightsFile::WeightsFile(std::unique_ptr<TensorSource> source, std::vector<std::filesystem::path> files)
    : TensorSource(source->path()), source_(std::move(source)), files_(std::move(files)) {
  if (holds_quantized(*source_)) {
    auto quantized = std::make_unique<QuantizedSource>(std::move(source_));
    quantized_ = quantized.get();
    source_ = std::move(quantized);
  }
  set_entries(source_->entries());
  for (const std::filesystem::path& file : files_) states_.push_back(state_of(file));
}

WeightsFile::FileState WeightsFile::state_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {.device = info.st_dev,
          .number = info.st_ino,
          .bytes = static_cast<std::uint64_t>(info.st_size),
          .seconds = info.st_mtim.tv_sec,
          .nanoseconds = info.st_mtim.tv_nsec};
}

void WeightsFile::verify() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const FileState now = state_of(files_[i]);
    if (!now.is_same_file(states_[i]) || now == states_[i]) continue;
    throw DataError({.what = "a model's weights have been written to since they were opened",
                     .where = files_[i].string(),
                     .found = fmt::format("{} written later", format_bytes(now.bytes)),
                     .allowed = "the file as it was when the command began",
                     .remedy =
                         "start the command again; a new model belongs in another directory, or replaces this one "
                         "by a rename"});
  }
  source_->verify();
}

void WeightsFile::read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const {
  source_->read_elements(source_->entries()[index], first_element, destination);
}

Coding WeightsFile::coding(std::string_view name) const {
  const auto index = static_cast<std::size_t>(&at(name) - entries().data());
  return quantized_ == nullptr ? Coding::kNone : quantized_->coding(index);
}

void WeightsFile::read_as_f32(std::string_view name, std::span<float> destination, std::span<std::byte> staging) const {
  check(destination.size() == static_cast<std::size_t>(at(name).type.shape.elements()),
        "a tensor is read into exactly its elements");
  read_as_f32(name, 0, destination, staging);
}

void WeightsFile::read_as_f32(std::string_view name, std::int64_t first_element, std::span<float> destination,
                              std::span<std::byte> staging) const {
  const TensorEntry& entry = at(name);
  const auto first = static_cast<std::uint64_t>(first_element);
  const std::span<std::byte> bytes = std::as_writable_bytes(destination);
  switch (entry.type.dtype) {
    case DType::kF32:
      return read_elements(entry, first, bytes);
    case DType::kF16:
      read_elements(entry, first, bytes.subspan(bytes.size() / 2));
      return widen_in_place<half_to_float>(destination);
    case DType::kBF16:
      read_elements(entry, first, bytes.subspan(bytes.size() / 2));
      return widen_in_place<bfloat16_to_float>(destination);
    case DType::kF64: {
      const std::size_t chunk = staging.size() / sizeof(double);
      check(chunk > 0, "the staging buffer holds at least one element");
      for (std::size_t done = 0; done < destination.size();) {
        const std::size_t count = std::min(chunk, destination.size() - done);
        read_elements(entry, first + done, staging.first(count * sizeof(double)));
        for (std::size_t i = 0; i < count; ++i) {
          double wide = 0;
          std::memcpy(&wide, staging.data() + i * sizeof(double), sizeof wide);
          destination[done + i] = static_cast<float>(wide);
        }
        done += count;
      }
      return;
    }
    default:
      throw DataError({.what = "a weight is not a floating-point tensor",
                       .where = fmt::format("{}, tensor '{}'", path().string(), name),
                       .found = to_string(entry.type),
                       .allowed = "F32, F16, BF16 or F64",
                       .remedy = "check that the file belongs to this model"});
  }
}

std::string WeightsFile::fingerprint() const {
  std::uint64_t hash = 0;
  for (const std::filesystem::path& file : files_) {
    const std::uint64_t sum = sum_of_file(file).hash;
    hash = hash_bytes(std::as_bytes(std::span(&sum, 1)), hash);
  }
  return hash_digits(hash);
}

WeightsFile open_weights(const std::filesystem::path& model_dir) {
  const auto open_path = [](const std::filesystem::path& path) {
    if (!path.string().ends_with(kIndexSuffix)) return WeightsFile(open_one(path), {path});
    auto shards = std::make_unique<ShardedSource>(path);
    std::vector<std::filesystem::path> files = shards->files();
    return WeightsFile(std::move(shards), std::move(files));
  };
  std::error_code ignored;
  if (std::filesystem::is_regular_file(model_dir, ignored)) return open_path(model_dir);
  for (const std::string_view name : kLookedFor) {
    if (std::filesystem::exists(model_dir / name, ignored)) return open_path(model_dir / name);
  }
  std::vector<std::string> present;
  for (const auto& item : std::filesystem::directory_iterator(model_dir, ignored)) {
    present.push_back(item.path().filename().string());
  }
  std::sort(present.begin(), present.end());
  if (present.size() > 12) present.resize(12);
  std::string found = present.empty() ? "an empty or missing directory" : fmt::format("{}", fmt::join(present, ", "));
  throw DataError({.what = "a model directory has no weights",
                   .where = model_dir.string(),
                   .found = std::move(found),
                   .allowed = fmt::format("{}", fmt::join(kLookedFor, ", ")),
                   .remedy = "download the whole model, or save it with save_pretrained()"});
}

}  // namespace plimsoll
