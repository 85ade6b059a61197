// Gives access to a model directory's weights through one interface, whatever file format they have.
//
// The files are looked for in the order of `transformers`: model.safetensors, model.safetensors.index.json
// (shards), pytorch_model.bin, pytorch_model.bin.index.json. Reading allocates nothing: bytes go into the caller's
// memory.
//
//   const WeightsFile weights = open_weights(model_dir);
//   if (weights.find("classifier.weight") == nullptr) log_info("the head is new");
//   weights.read_as_f32("classifier.bias", bias, staging);   // from any floating type
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/quantized_source.h"
#include "formats/tensor_source.h"

namespace plimsoll {

// path() is the file, or the index of the shards. entries() of shards are in the index's order; their offset_bytes are
// relative to the shard's file. A weight that bitsandbytes quantized is one entry (formats/quantized_source.h).
class WeightsFile : public TensorSource {
 public:
  // Reads the tensor as float: F32 unchanged, F16 and BF16 exactly, F64 rounded to nearest. `destination` must have
  // exactly the tensor's elements. `staging` is used only for F64 and must hold at least one element (64 KiB and more
  // are fast). Throws DataError naming the tensor if it is not floating.
  void read_as_f32(std::string_view name, std::span<float> destination, std::span<std::byte> staging) const;
  // Does the same for `destination`.size() elements from `first` on.
  void read_as_f32(std::string_view name, std::int64_t first, std::span<float> destination,
                   std::span<std::byte> staging) const;
  // Throws DataError also if a file has been written to since it was opened: config and labels would be of another
  // model. A file that has taken its place is another one, and is not read.
  void verify() const override;
  // Returns how the file stores a tensor.
  Coding coding(std::string_view name) const;
  // Returns the files that hold the tensors, in the order in which they are first named.
  const std::vector<std::filesystem::path>& files() const { return files_; }
  // Returns a fingerprint of the contents (base/hash.h), as 16 digits. Reads every file once.
  std::string fingerprint() const;

 private:
  friend WeightsFile open_weights(const std::filesystem::path& model_dir);
  WeightsFile(std::unique_ptr<TensorSource> source, std::vector<std::filesystem::path> files);

  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;
  std::optional<StoredTensor> stored_at(std::size_t index) const override {
    return source_->stored(source_->entries()[index].name);
  }

  std::unique_ptr<TensorSource> source_;
  const QuantizedSource* quantized_ = nullptr;  // source_, if it is one
  std::vector<std::filesystem::path> files_;
  // The system says this of a file; each is asked for when it is opened.
  struct FileState {
    std::uint64_t device = 0, number = 0, bytes = 0;
    std::int64_t seconds = 0, nanoseconds = 0;  // when it was written
    bool is_same_file(const FileState& other) const { return device == other.device && number == other.number; }
    friend bool operator==(const FileState&, const FileState&) = default;
  };
  static FileState state_of(const std::filesystem::path& file);
  std::vector<FileState> states_;
};

// `model_dir` may also be a weight file itself (*.safetensors, *.bin, *.index.json). Throws DataError if nothing is
// found (it lists what was looked for), or if a file is invalid.
WeightsFile open_weights(const std::filesystem::path& model_dir);

}  // namespace plimsoll
