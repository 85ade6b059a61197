// Products of bfloat16 matrices by blocks that stay in the caches, for processors that multiply tiles (AMX). On these,
// oneDNN's products wait for memory (docs/speed.md).
//
// b is first packed into micro-panels: 32 columns over the whole inner dimension, with zeros beyond the edges. Each
// thread then packs 32 rows of a at a time, which stay in the first cache while a micro-kernel multiplies them by the
// panels of b, which come from the second (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// 2008). The next rows of a are packed, and finished blocks of c stored, while others are multiplied: a processor with
// AMX multiplies a step faster than memory brings the next lines. Each element is summed in F32, in an order that
// depends on `inner` alone: numbers of rows, columns and threads change no bit.
//
//   const MatmulShape largest{.rows = 709, .columns = 768, .inner = 3072, .operands = DType::kBF16};
//   const BlockedProduct product(reference_micro_kernel(), largest, 1);
//   product.run(largest, x, weight, nullptr, y, scratch);  // scratch: product.scratch_bytes()
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/general_product.h"
#include "base/bytes.h"

namespace plimsoll {

inline constexpr std::int64_t kPanelWidth = 32;              // rows of a, or columns of b, in a micro-panel
inline constexpr std::int64_t kPanelStep = 32;               // inner elements of a micro-panel's step
inline constexpr std::int64_t kPanelStepElements = 32 * 32;  // of one step: two tiles, each of 16 rows or columns
inline constexpr std::int64_t kMicroBlock = 32 * 32;         // elements of c that a micro-kernel computes

// The sizes of blocks, in elements. A block of b takes 2 columns inner bytes, and one of c, unless `inner` is all there
// is, 4 rows columns; together they must fit the second cache, and a panel of a, 64 inner bytes, the first.
struct Blocking {
  std::int64_t inner, rows, columns;    // multiples of 32
  std::size_t packed_bytes = 6 * kMiB;  // of b that are packed at a time, unless one block takes more
  std::int64_t packed_inner = 4096;     // inner elements that are packed at a time if c is F32
};

// Rows of a matrix that are copied into a micro-panel of a: one line of 32 elements for each row and step. What a panel
// holds for rows beyond the matrix does not matter, because their sums are not stored.
struct RowsCopy {
  const std::uint16_t* from = nullptr;
  std::uint16_t* to = nullptr;
  std::int64_t stride = 0, panel_stride = 0;  // elements between rows, there and in the panel
  std::int64_t rows = 0, steps = 0;
  std::int64_t last = 0;  // elements of the last step; zeros follow
};

// A finished micro-block that is stored.
struct BlockStore {
  const float* from = nullptr;
  void* to = nullptr;                    // its place in c
  const float* bias = nullptr;           // for the first column, or nullptr
  std::int64_t row_bytes = 0;            // between c's rows
  std::int64_t rows = 0, columns = 0;    // up to 32 of each
  bool in_halves = false, adds = false;  // c is BF16, else F32; adds to c's old content, which is F32
};

// This is what a micro-kernel does besides: work for memory, which takes longer if the processor does nothing else.
struct Besides {
  RowsCopy copy;
  BlockStore store;
};

// How a processor multiplies two micro-panels. A row of a panel of a is contiguous, and rows are `a_stride` elements
// apart. In a step of a panel of b, a tile's element (k, j) is number 32 (k / 2) + 2 j + k % 2, for the pairs of
// neighbours along k that processors take.
struct MicroKernel {
  std::string_view name;
  Blocking blocking;
  void (*begin)();  // called on a thread before it multiplies
  void (*end)();    // and afterwards; what was stored besides is then visible to other threads
  // c[32][32] = the product of `steps` steps of two panels, added to c's old values if `adds`.
  void (*multiply)(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps, float* c,
                   bool adds, const Besides& besides);
};

// The same by simple loops.
void copy_simply(const RowsCopy& copy);
void store_simply(const BlockStore& block);

// Returns a micro-kernel of simple loops, for any processor.
const MicroKernel& reference_micro_kernel();
// Returns the micro-kernel by AVX512_BF16 or by AMX; nullptr if the processor has neither.
const MicroKernel* vector_micro_kernel();
const MicroKernel* tile_micro_kernel();

class BlockedProduct final : public GeneralProduct {
 public:
  // `largest` has the sizes for which scratch is laid out; run() takes any that are not larger, with the same result
  // type. Scratch grows with `inner` if the result is BF16.
  BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads);
  BlockedProduct(const MicroKernel& kernel, const MatmulShape& largest, int threads, const Blocking& blocking);

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  // An addition to c (`accumulate`) needs a result of F32. It is not called inside a parallel region.
  void run(const MatmulShape& shape, const void* a, const void* b, const float* bias, void* c,
           std::byte* scratch) const override;

 private:
  std::int64_t packed_columns(const MatmulShape& shape) const;
  std::int64_t packed_inner(const MatmulShape& shape) const;

  const MicroKernel& kernel_;
  MatmulShape largest_;
  Blocking blocking_;
  int threads_;
  std::int64_t panel_stride_ = 0;  // elements between the rows of a panel of a
  std::int64_t block_floats_ = 0;  // of a block of c, one for each thread
  std::size_t a_at_ = 0, b_at_ = 0, c_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace plimsoll
