// Products of bfloat16 matrices by blocks that stay in the caches, for processors that multiply tiles (AMX). On these,
// oneDNN's products wait for memory (docs/speed.md).
//
// b is first packed into micro-panels: 32 columns over the whole inner dimension, with zeros beyond the edges. Each
// thread then packs 32 rows of a at a time, which stay in the first cache while a micro-kernel multiplies them by the
// panels of b, which come from the second (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// 2008). The next rows of a are fetched into the second cache, and finished blocks of c stored, while others are
// multiplied: a processor with AMX multiplies a step faster than memory brings the next lines. Each element is summed
// in F32, in an order that depends on `inner` alone: numbers of rows, columns and threads change no bit.
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

// The sizes of blocks, in elements, multiples of 32. A panel of a, 64 inner bytes, should lie in the first cache for
// the most part, and a block of b in the second. If there are more than `inner` elements, they are divided into parts
// of at most `part` <= `inner`, and the sums of a block of c, 4 rows columns bytes, are kept between the parts.
struct Blocking {
  std::int64_t inner, part, rows, columns;
  std::int64_t block;                   // elements of a block of b, which may leave it fewer columns
  std::size_t packed_bytes = 6 * kMiB;  // of b that are packed at a time, but at least a panel
  std::int64_t packed_inner = 4096;     // inner elements that are packed at a time if c is F32
};

// Memory that is read next, in cache lines, row by row.
struct NextLines {
  const std::byte* from = nullptr;
  std::int64_t row_bytes = 0;  // between rows
  std::int64_t rows = 0, row_lines = 0;
};

// A finished micro-block that is stored.
struct BlockStore {
  const float* from = nullptr;
  const float* plus = nullptr;           // sums over other parts of the inner dimension, [32][32], or nullptr
  void* to = nullptr;                    // its place in c
  const float* bias = nullptr;           // for the first column, or nullptr
  std::int64_t row_bytes = 0;            // between c's rows
  std::int64_t rows = 0, columns = 0;    // up to 32 of each
  bool in_halves = false, adds = false;  // c is BF16, else F32; adds to c's old content, which is F32
  bool is_read_soon = false;             // should stay in the caches
};

// This is what a micro-kernel does besides: work for memory, which takes longer if the processor does nothing else.
struct Besides {
  NextLines next;    // may be fetched into the second cache
  BlockStore store;  // is stored before c is written, where it may come from
};

// How a processor multiplies two micro-panels. A row of a panel of a is contiguous, and rows are `a_stride` elements
// apart. In a step of a panel of b, a tile's element (k, j) is number 32 (k / 2) + 2 j + k % 2, for the pairs of
// neighbours along k that processors take.
struct MicroKernel {
  std::string_view name;
  Blocking blocking;
  void (*begin)();  // called on a thread before it multiplies
  void (*end)();    // and afterwards; what was stored besides is then visible to other threads
  // c[32][32] = the product of `steps` steps of two panels.
  void (*multiply)(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps, float* c,
                   const Besides& besides);
};

void store_simply(const BlockStore& block);

// Returns a micro-kernel of simple loops, for any processor.
const MicroKernel& reference_micro_kernel();
// Returns the micro-kernel by AVX512_BF16 or by AMX; nullptr if the processor has neither.
const MicroKernel* vector_micro_kernel();
const MicroKernel* tile_micro_kernel();

class BlockedProduct final : public GeneralProduct {
 public:
  // `largest` has the sizes for which scratch is laid out; run() takes any that are not larger, with the same result
  // type, and a transposed `a` only if `largest` has one. Scratch grows with `inner` if the result is BF16.
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
  std::int64_t block_floats_ = 0;  // of a micro-block and, between the parts of the inner dimension, a block of c
  std::size_t a_at_ = 0, b_at_ = 0, c_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace plimsoll
