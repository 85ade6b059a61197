// A matrix product over any number of rows: nothing has to be prepared for one row count (MatmulCache::general).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace plimsoll {

// c[rows, columns] = a b (+ bias) (+ c), row-major, summed in F32, or for I8 in I32.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType operands = DType::kF32;  // type of a and b: F32, BF16 where multiplies_bf16(), I8 where multiplies_int8()
  DType result = DType::kF32;    // type of c: F32, or the operands' type; I32 of I8. The bias is F32
  bool transposed_a = false;     // a is stored [inner, rows], else [rows, inner]
  bool transposed_b = false;     // b is stored [columns, inner], else [inner, columns]
  bool packed_b = false;         // b comes from WeightPacking (transposed_b is then ignored)
  bool bias = false;             // + bias[columns] on every row
  bool accumulate = false;       // + c's old content
  std::int64_t row_stride = 0;   // elements between c's rows, 0 for `columns`; only a GeneralProduct takes others
  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;
};

// Which products of a backend are general.
enum class GeneralProducts : std::uint8_t {
  kWhereFaster,
  // For tests only.
  kNever,   // all products are prepared, on every machine
  kBlocked  // products of BF16 are blocked (blocked_product.h), even small ones, on every machine that multiplies BF16
};

class GeneralProduct {
 public:
  GeneralProduct() = default;
  GeneralProduct(const GeneralProduct&) = delete;
  GeneralProduct& operator=(const GeneralProduct&) = delete;
  virtual ~GeneralProduct() = default;
  virtual std::size_t scratch_bytes() const = 0;
  // The shape may be smaller than the one for which the product was made, in every dimension. `bias` is read only if it
  // has one. `scratch` must be aligned to 64 bytes.
  virtual void run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
                   std::byte* scratch) const = 0;
};

}  // namespace plimsoll
