// safetensors: read and written as streams, using only planned memory.
//
// The format (huggingface/safetensors, README "Format"): 8 bytes header length N, little endian;
// N bytes of JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …,
// "__metadata__": {"key": "text"}}, padded with spaces; then the tensors' bytes.
//
// The reader trusts nothing: the header must be at most 100 MB and inside the file, every shape and offset is checked
// for overflow, tensors must lie end to end without holes or overlap up to the file's last byte (as Hugging Face's own
// reader requires), and no name may occur twice. Anything else is a DataError.
//
//   SafetensorsWriter writer(path, {{"weight", {DType::kF32, {2, 3}}}, {"bias", {DType::kF32, {2}}}});
//   writer.write(weight_bytes);
//   writer.write(bias_bytes);
//   writer.finish();                                  // `path` changes only now, in one step
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/tensor_source.h"

namespace plimsoll {

inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

class SafetensorsReader : public TensorSource {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;
  std::optional<StoredTensor> stored_at(std::size_t index) const override;

  InputFile file_;
  SafetensorsMetadata metadata_;
};

// A tensor that will be written.
struct TensorDeclaration {
  std::string name;
  TensorType type;
};

class SafetensorsWriter {
 public:
  // Writes the header. `transformers` expects the metadata format = pt. Names must be distinct, and not "__metadata__".
  // Throws EnvironmentError (disk, permissions).
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorDeclaration> tensors,
                    const SafetensorsMetadata& metadata = {{"format", "pt"}});

  // Writes the next bytes of the tensors, in their order. One tensor may come in several pieces (from a staging
  // buffer), but no piece may reach into the next tensor.
  void write(std::span<const std::byte> bytes);
  // Does the same with values, rounded to nearest even where the tensor is declared as kBF16 or kF16; otherwise it is
  // kF32. Throws DataError for a finite value that is too large for it.
  void write_floats(std::span<const float> values);
  // Call after the last byte (see OutputFile::close): a writer destroyed before leaves `path` unchanged.
  FileSum finish();

 private:
  // Returns the tensor that the next byte belongs to.
  const TensorDeclaration& next_tensor();

  std::vector<TensorDeclaration> tensors_;
  OutputFile file_;
  std::size_t current_ = 0;             // the tensor being written
  std::size_t current_done_bytes_ = 0;  // bytes of it written so far
};

}  // namespace plimsoll
