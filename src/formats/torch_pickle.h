// pytorch_model.bin: reads the zip that torch.save writes (since PyTorch 1.6), without Python and without running code
// in the pickle.
//
// The archive holds NAME/data.pkl, a pickled state dict whose tensors refer to storages, and the storages'
// bytes as NAME/data/KEY. Only the functions that rebuild tensors, parameters and OrderedDict are known;
// complex, quantized, sparse and other such tensors are refused by their kind, any other name in the
// pickle as code. Tensors may share a storage (tied weights) and may be strided views of one: read()
// gathers them row-major. A state dict nested under "state_dict" is found; values that are not tensors are
// skipped.
//
//   TorchPickleReader reader(directory / "pytorch_model.bin");   // is a TensorSource
//   reader.read("classifier.bias", std::as_writable_bytes(bias));
#pragma once

#include <array>
#include <vector>

#include "formats/tensor_source.h"
#include "formats/zip.h"

namespace plimsoll {

class TorchPickleReader : public TensorSource {
 public:
  // Throws DataError if there is no such archive, if it would run code, is cut or inconsistent, or has PyTorch's format
  // from before 1.6.
  explicit TorchPickleReader(const std::filesystem::path& path);

  void verify() const override;

  // The layout of a tensor's elements: element (i, j, …) is at offset_bytes + width * (i*strides[0] + …).
  struct Layout {
    std::array<std::int64_t, Shape::kMaxRank> strides{};  // in elements
    bool contiguous = true;
  };

 private:
  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;

  ZipReader zip_;
  std::vector<Layout> layouts_;  // one for each entry
};

}  // namespace plimsoll
