// Writes a matrix in 4 bits as bitsandbytes and `transformers` read it: NF4 in blocks of 64 neighbours, the factors of
// blocks unchanged or quantized in turn (formats/quantized_source.h has the tensors).
//
//   const QuantizedWriter matrix({"layer.weight", {DType::kBF16, {1024, 1024}}}, true);
//   SafetensorsWriter writer(path, matrix.declarations());
//   matrix.write(writer, [&](std::int64_t first, std::span<float> values) { read(first, values); });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/safetensors.h"

namespace plimsoll {

class QuantizedWriter {
 public:
  // `matrix` has its name, shape [out, in] and original type, to which products in `transformers` convert it back.
  QuantizedWriter(TensorDeclaration matrix, bool use_double_quant)
      : matrix_(std::move(matrix)), use_double_quant_(use_double_quant) {}

  std::vector<TensorDeclaration> declarations() const;

  // Writes these tensors one after the other. `read` gives elements from `first` on, each once and in order. Holds the
  // blocks' factors, a sixteenth of the matrix's bytes in F32.
  using Read = std::function<void(std::int64_t first, std::span<float> values)>;
  void write(SafetensorsWriter& writer, const Read& read) const;

 private:
  std::int64_t blocks() const;

  TensorDeclaration matrix_;
  bool use_double_quant_ = false;
};

}  // namespace plimsoll
