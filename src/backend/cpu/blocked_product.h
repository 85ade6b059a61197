// Products of bfloat16 matrices by blocks that stay in the caches, for processors that multiply tiles (AMX). On these,
// oneDNN's products wait for memory (docs/speed.md).
//
// Both operands are first packed into micro-panels: 32 rows of a, or 32 columns of b, over the whole inner dimension,
// with zeros beyond the edges. A block of a and one of b then stay in the second cache while a micro-kernel multiplies
// their panels, and a panel's part stays in the first (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008). Each element is summed in F32, in an order that depends on `inner` alone: numbers of rows,
// columns and threads change no bit.
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

// The sizes of blocks, in elements. A block of a takes 2 rows inner bytes, one of b 2 columns inner, and one of c 4
// rows columns; together they must fit the second cache, and two panels' parts, 128 inner bytes, the first.
struct Blocking {
  std::int64_t inner, rows, columns;    // multiples of 32
  std::size_t packed_bytes = 6 * kMiB;  // of each operand that is packed at a time, unless one block takes more
  std::int64_t packed_inner = 4096;     // inner elements that are packed at a time if c is F32
  std::int64_t together = 1;            // panels of a that a panel's part of b meets while it is in the first cache
};

// How a processor multiplies two micro-panels. In a step of a panel of a, a tile's element (i, k) is number 32 i + k;
// in one of b, element (k, j) is number 32 (k / 2) + 2 j + k % 2, for the pairs of neighbours along k that processors
// take.
struct MicroKernel {
  std::string_view name;
  Blocking blocking;
  void (*begin)();  // called on a thread before it multiplies
  void (*end)();    // and afterwards
  // c[32][32] = the product of `steps` steps of two panels, added to c's old values if `adds`.
  void (*multiply)(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, float* c, bool adds);
};

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
  struct Part;  // what is packed of a product at a time

  void multiply(const Part& part, const float* bias, void* c, std::byte* scratch) const;
  std::int64_t packed_lines(std::int64_t lines, std::int64_t inner, std::int64_t block) const;
  std::int64_t packed_inner(const MatmulShape& shape) const;

  const MicroKernel& kernel_;
  MatmulShape largest_;
  Blocking blocking_;
  int threads_;
  std::int64_t block_floats_ = 0;  // of a block of c, one for each thread
  std::size_t a_at_ = 0, b_at_ = 0, c_at_ = 0, scratch_bytes_ = 0;
};

}  // namespace plimsoll
