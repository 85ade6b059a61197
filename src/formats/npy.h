// NumPy arrays: reads and writes .npy files, and reads .npz archives (stored or deflated).
//
// The format (numpy/lib/_format_impl.py): "\x93NUMPY", version, header length, a Python dictionary
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, then the elements. Versions 1 to 3;
// little endian and C order only; arrays of plain numbers (bfloat16 does not exist there).
// Anything else, and a file that is longer or shorter than its shape, is a DataError.
//
//   NpyReader reader("boxes.npy");
//   std::vector<std::byte> bytes(reader.type().bytes());
//   reader.read(bytes);
#pragma once

#include <vector>

#include "formats/tensor_source.h"
#include "formats/zip.h"

namespace plimsoll {

class NpyReader {
 public:
  explicit NpyReader(const std::filesystem::path& path);

  const TensorType& type() const { return type_; }
  // `destination` must hold exactly type().bytes().
  void read(std::span<std::byte> destination) const;

 private:
  InputFile file_;
  TensorType type_;
  std::uint64_t offset_bytes_ = 0;
};

// The arrays of a .npz by name ("boxes" for the entry boxes.npy), sorted by name.
class NpzReader : public TensorSource {
 public:
  explicit NpzReader(const std::filesystem::path& path);

  void verify() const override;

 private:
  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;

  ZipReader zip_;
  std::vector<const ZipEntry*> zip_entries_;  // one for each entry; offset_bytes counts inside it
};

// Replaces `path` in one step. `bytes` must have exactly type.bytes(); the dtype must not be BF16.
void write_npy(const std::filesystem::path& path, const TensorType& type, std::span<const std::byte> bytes);

}  // namespace plimsoll
