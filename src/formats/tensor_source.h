// TensorSource: named tensors in a file, read straight into the caller's memory.
//
// Invariant: every entry was checked when the file was opened (its type does not overflow, its bytes lie in the file,
// no name occurs twice), so reading allocates nothing and cannot leave the file. Reads use pread: they are thread-safe,
// and map no pages, which would count as resident memory.
//
//   SafetensorsReader reader(directory / "model.safetensors");        // is a TensorSource
//   for (const TensorEntry& entry : reader.entries()) plan_bytes += entry.type.bytes();
//   reader.read("classifier.bias", std::as_writable_bytes(bias));     // exactly the tensor's bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/stored_tensor.h"
#include "tensor/tensor.h"

namespace plimsoll {

struct TensorEntry {
  std::string name;
  TensorType type;
  std::uint64_t offset_bytes = 0;  // of the first element, from the start of its file
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  TensorSource(TensorSource&&) = default;
  TensorSource& operator=(TensorSource&&) = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Returns the entries in the order of the file.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  // Returns null if there is no tensor of that name.
  const TensorEntry* find(std::string_view name) const;
  // Throws DataError naming file and tensor if there is none of that name.
  const TensorEntry& at(std::string_view name) const;

  // Reads the whole tensor, row-major; `destination` must have exactly its size. Throws DataError if the file cannot be
  // read.
  void read(std::string_view name, std::span<std::byte> destination) const;
  // Reads as many elements as `destination` holds, from `first_element` on (row-major order), for tensors that pass
  // through a staging buffer. `entry` is one of entries().
  void read_elements(const TensorEntry& entry, std::uint64_t first_element, std::span<std::byte> destination) const;

  // Returns where the tensor is in a file, if its elements are contiguous there; empty otherwise.
  std::optional<StoredTensor> stored(std::string_view name) const;

  // Reads the whole file once and compares it with its container's checksums (the CRC-32 of a zip archive's entries;
  // safetensors has none). Throws DataError naming the damaged part.
  virtual void verify() const {}

 protected:
  explicit TensorSource(std::filesystem::path path) : path_(std::move(path)) {}
  // Called once, at the end of opening; throws DataError if a name occurs twice.
  void set_entries(std::vector<TensorEntry> entries);
  // `index` is an index into entries(); the range was checked.
  virtual void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const = 0;
  // Does the same for the entry with that index.
  virtual std::optional<StoredTensor> stored_at(std::size_t) const { return std::nullopt; }

 private:
  std::filesystem::path path_;
  std::vector<TensorEntry> entries_;
  std::vector<std::size_t> by_name_;  // indices into entries_, sorted by name
};

// Returns the type if a shape of untrusted numbers has at most five dimensions and its bytes fit 63 bits (a zero among
// the dimensions does not excuse the others); throws DataError at `where` otherwise.
TensorType checked_tensor_type(DType dtype, std::span<const std::uint64_t> dims, const std::string& where);

// Inverts dtype_name.
std::optional<DType> parse_dtype(std::string_view name);

// Throws DataError if the file is a Git LFS pointer or a web page saved as a weight file: the two most common ways in
// which a download goes wrong.
void refuse_placeholder(const InputFile& file);

}  // namespace plimsoll
