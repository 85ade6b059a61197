// Matrix products of fixed shapes by oneDNN. Only this file and its source know the library, in versions 2 and 3.
//
// A `Matmul` is prepared once and then runs on any buffers; it allocates nothing itself, and the caller provides its
// scratch. A `MatmulCache` keeps one object per shape, shared by all kernels of a backend. It is not reentrant: the
// objects hold the buffers of the product that is running.
//
//   MatmulCache cache;
//   const Matmul& product = cache.matmul({.rows = 256, .columns = 3072, .inner = 768, .transposed_b = true});
//   product.run(x, weight, nullptr, y, scratch);            // y[256, 3072] = x[256, 768] weight[3072, 768]^T
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "tensor/dtype.h"

namespace plimsoll {

// True if this machine multiplies BF16 faster than F32 (it has AVX512_BF16 or better); otherwise F32 is used.
bool multiplies_bf16();

// True if this machine sums products of bytes in one instruction without saturating (AVX512_VNNI).
bool multiplies_int8();

// c[rows, columns] = a b (+ bias) (+ c), row-major, summed in F32, or, of I8, in I32.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType operands = DType::kF32;  // type of a and b: F32, BF16 where multiplies_bf16(), I8 where multiplies_int8()
  DType result = DType::kF32;    // type of c: F32, or the operands' type; I32 of I8. The bias is F32
  bool transposed_a = false;     // a is stored [inner, rows], else [rows, inner]
  bool transposed_b = false;     // b is stored [columns, inner], else [inner, columns]
  bool packed_b = false;         // b comes from WeightPacking (transposed_b is then ignored)
  bool bias = false;             // + bias[columns] on every row
  bool accumulate = false;       // + what c held
  std::int64_t row_stride = 0;   // elements between c's rows, 0 for `columns`; only multiply_unprepared() takes others
  friend auto operator<=>(const MatmulShape&, const MatmulShape&) = default;
};

class Matmul {
 public:
  Matmul() = default;
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  virtual ~Matmul() = default;
  virtual std::size_t scratch_bytes() const = 0;
  // `bias` is read only if the shape has one. `scratch` must be aligned to 64 bytes.
  virtual void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const = 0;
};

// Copies a matrix b[inner, columns] into the blocked layout that oneDNN multiplies fastest.
class WeightPacking {
 public:
  WeightPacking() = default;
  WeightPacking(const WeightPacking&) = delete;
  WeightPacking& operator=(const WeightPacking&) = delete;
  virtual ~WeightPacking() = default;
  virtual std::size_t packed_bytes() const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  virtual void run(const void* b, void* packed, std::byte* scratch) const = 0;
};

// Runs the product of `shape` unprepared, by oneDNN's general product of F32 (dnnl_sgemm). Packing buffers are
// oneDNN's own, a few hundred KiB a thread; the arguments are those of Matmul::run.
void multiply_unprepared(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c);

class MatmulCache {
 public:
  // With `prepares_all`, is_general() is false on every machine, so that tests reach the prepared products.
  explicit MatmulCache(bool prepares_all = false);
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  // True if `matmul` would prepare the general product for these types, as it does for F32 without AVX-512.
  // multiply_unprepared() runs that over any number of rows, so that nothing has to be prepared.
  bool is_general(DType operands, DType result);
  // Both live as long as the cache. `packing` returns nullptr if b's own layout is as good for oneDNN as any other.
  const Matmul& matmul(const MatmulShape& shape);
  const WeightPacking* packing(std::int64_t inner, std::int64_t columns, bool transposed_b, DType dtype = DType::kF32);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace plimsoll
