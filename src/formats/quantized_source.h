// QuantizedSource: weights that `transformers` saved in 4 or 8 bits with bitsandbytes, decoded to numbers.
//
// A matrix [out, in] in 4 bits is several tensors (bitsandbytes' QuantState.as_dict, packed):
//   NAME                    two codes a byte, the first in the upper half, in the order of the matrix
//   NAME.quant_map          F32 [16]: what the codes stand for
//   NAME.absmax             F32: a factor for each `blocksize` neighbours; or, doubly quantized (QLoRA), U8: codes of
//                           factors, with NAME.nested_quant_map F32 [256] and NAME.nested_absmax F32, a factor for each
//                           `nested_blocksize` of them, to whose product `nested_offset` is added
//   NAME.quant_state.bitsandbytes__nf4 (or __fp4)   U8: a JSON text with `shape` and these numbers
// One in 8 bits is NAME I8 [out, in], and for the module, NAME without ".weight", SCB F32 [out]: a code c stands for
// c SCB / 127.
//
// Each such matrix is one entry, F32 of its shape; its tensors are not entries themselves. The shape is that of
// torch.nn.Linear even if the model has a Conv1D, whose weight bitsandbytes transposes.
//
//   auto file = std::make_unique<SafetensorsReader>(path);
//   if (holds_quantized(*file)) {
//     const QuantizedSource weights(std::move(file));
//     weights.read("model.layers.0.self_attn.q_proj.weight", std::as_writable_bytes(values));
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/tensor_source.h"

namespace plimsoll {

enum class Coding : std::uint8_t {
  kNone,         // plain numbers
  kNormalFloat,  // 4 bits in the layout of tensor/block_code.h: NF4, in blocks of 64 that no two rows share
  kBytes,        // 8 bits, a factor for each row: Q8 with Factor::kOfRow, since a row's largest number has code 127
  kOther         // 4 bits in other blocks or of another type: no type of ours has this layout
};

// True if some tensors of the file are such weights.
bool holds_quantized(const TensorSource& file);

class QuantizedSource final : public TensorSource {
 public:
  // Throws DataError naming the matrix if one of its tensors is missing or does not fit.
  explicit QuantizedSource(std::unique_ptr<TensorSource> file);

  // `index` is an entry's.
  Coding coding(std::size_t index) const;
  void verify() const override { file_->verify(); }

 private:
  struct Matrix;

  void read_range(std::size_t index, std::uint64_t first_element, std::span<std::byte> destination) const override;
  std::optional<StoredTensor> stored_at(std::size_t index) const override;

  std::unique_ptr<TensorSource> file_;
  std::vector<std::size_t> places_;                      // of each entry, or of its codes, in the file's entries
  std::vector<std::shared_ptr<const Matrix>> matrices_;  // of each entry; nullptr: plain numbers
};

}  // namespace plimsoll
