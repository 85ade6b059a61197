// A model directory's weights behind one interface, whichever file format they are in.
//
// Looked for, in the order in which `transformers` looks: model.safetensors,
// model.safetensors.index.json (shards), pytorch_model.bin, pytorch_model.bin.index.json.
// Reading allocates nothing: bytes go into the caller's memory.
//
//   const WeightsFile weights = open_weights(model_dir);
//   if (weights.find("classifier.weight") == nullptr) log_info("the head is new");
//   weights.read_as_f32("classifier.bias", bias, staging);   // whatever the file's precision
#pragma once

#include <memory>
#include <vector>

#include "formats/tensor_source.h"

namespace plimsoll {

// path() is the file, or the index of the shards. entries() of shards are in the index's order;
// their offset_bytes count in the shard's file.
class WeightsFile : public TensorSource {
 public:
  // The tensor as float: F32 as it is, F16 and BF16 exactly, F64 rounded to nearest. `destination`
  // holds exactly the tensor's elements. `staging` is used for F64 alone and holds at least one
  // element (64 KiB and more are quick). Throws DataError naming the tensor if it is not floating.
  void read_as_f32(std::string_view name, std::span<float> destination, std::span<std::byte> staging) const;
  // The same of `destination`.size() elements from `first` on.
  void read_as_f32(std::string_view name, std::int64_t first, std::span<float> destination,
                   std::span<std::byte> staging) const;
  void verify() const override;
  // The files that hold the tensors, in the order first named.
  std::vector<std::filesystem::path> files() const;

 private:
  friend WeightsFile open_weights(const std::filesystem::path& model_dir);
  explicit WeightsFile(std::unique_ptr<TensorSource> only);
  explicit WeightsFile(const std::filesystem::path& index);

  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;

  struct Place {
    std::size_t source = 0;  // into sources_
    std::size_t entry = 0;   // into that source's entries()
  };
  std::vector<std::unique_ptr<TensorSource>> sources_;
  std::vector<Place> places_;  // one per entry
};

// `model_dir` may also be a weight file itself (*.safetensors, *.bin, *.index.json). Throws
// DataError: nothing found (listing what was looked for), or whatever is wrong with what was.
WeightsFile open_weights(const std::filesystem::path& model_dir);

}  // namespace plimsoll
