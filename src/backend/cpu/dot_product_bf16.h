// Small matrix products of bfloat16 for attention's tiles: by AVX512_BF16's dot products of pairs or, where the
// processor has it and `pairs` is a multiple of 16, by AMX (tile_product_bf16.h). It must not be called on a processor
// without either (see multiplies_bf16() in dnnl_matmul.h).
//
// C[m, n] (+)= A[m, k] B[k, n]. Elements of A and B come in pairs of neighbours along k:
//   A's pair (i, p), elements 2p and 2p + 1 of row i, is the 32 bits at a.data + i * a.row_stride + 2 * p.
//   B's pairs p are the words b[p * b_stride + j], element 2p in the lower half.
// Products are summed in F32, in the order of k.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
// Every function that uses AVX512_BF16 is declared with it.
#define PLIMSOLL_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#endif

namespace plimsoll {

struct PairRows {
  const std::uint16_t* data;  // row_stride counts these elements
  std::int64_t row_stride;
};

enum class DotSum {
  kStore,  // C's old values are overwritten
  kAdd     // C's old values are added to; with `factors`, one for each column, after they are multiplied by them
};

// `columns` must be a multiple of 16.
void dot_product_bf16(PairRows a, std::int64_t rows, std::int64_t pairs, const std::uint32_t* b, std::int64_t b_stride,
                      float* c, std::int64_t c_stride, std::int64_t columns, DotSum sum,
                      const float* factors = nullptr);

}  // namespace plimsoll
