// Matrix products of fixed shapes by oneDNN. Only this file and its source know the library, in versions 2 and 3.
//
// A `Matmul` is prepared once and then runs on any buffers; once it has code (make_code) it allocates nothing itself, and
// the caller provides its scratch. A `MatmulCache` has one object per shape, shared by all kernels of a backend. It is
// not reentrant: the objects hold the buffers of the product that is running.
//
//   MatmulCache cache;
//   const auto product = cache.matmul({.rows = 256, .columns = 3072, .inner = 768, .transposed_b = true});
//   product->run(x, weight, nullptr, y, scratch);            // y[256, 3072] = x[256, 768] weight[3072, 768]^T
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cpu/general_product.h"
#include "tensor/dtype.h"

namespace plimsoll {

// True if this machine multiplies BF16 faster than F32 (it has AVX512_BF16 or better); otherwise F32 is used.
bool multiplies_bf16();

// True if this machine sums products of bytes in one instruction without saturating (AVX512_VNNI).
bool multiplies_int8();

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

class MatmulCache {
 public:
  explicit MatmulCache(GeneralProducts general = GeneralProducts::kWhereFaster);
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  // True if oneDNN multiplies F32 by its general product (dnnl_sgemm), as it does without AVX-512. That product packs
  // into buffers of its own, a few hundred KiB a thread.
  bool has_general_f32();
  // Returns a product over any rows, columns and inner elements up to those of `largest`, for the calling thread's
  // team, or nullptr if such products are prepared: for F32 oneDNN's if it has one, for BF16 a blocked one
  // (blocked_product.h) on processors with AMX. `n` rows are multiplied by a weight of `k` columns, or summed to its
  // gradient. The number of the weight's rows must not affect the choice, because a part of a vocabulary must give the
  // same bits as the whole.
  std::unique_ptr<GeneralProduct> general(const MatmulShape& largest, std::int64_t n, std::int64_t k);
  // `packing` returns nullptr if b's own layout is as good for oneDNN as any other.
  std::shared_ptr<const Matmul> matmul(const MatmulShape& shape);
  std::shared_ptr<const WeightPacking> packing(std::int64_t inner, std::int64_t columns, bool transposed_b,
                                               DType dtype = DType::kF32);
  // Generates the code of products that somebody else holds. Each has its own; without this call it is generated when
  // the product first runs.
  void make_code();
  // Estimates the bytes of all code that somebody else's products have or lack, by what was generated so far took.
  std::size_t code_bytes() const;
  // Frees what nobody else holds: the products of plans that were not chosen take MiB.
  void release_unused();

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace plimsoll
