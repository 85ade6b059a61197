// A matrix product by our own kernel, for products that cuBLASLt proposes no algorithm for. Sums are in F32, in the
// same order on every device, and rounded once.
#pragma once

#include <cstdint>

#include "backend/cuda/device.h"

namespace plimsoll::cuda {

// c[rows, columns] = a b (+ bias) (+ addend). Either `rows` or `inner` is a bound of the number of real rows, which is
// `count` on the device; if that is nullptr, both are exact.
template <typename T, typename C>
struct OwnProduct {
  const T* a = nullptr;
  const T* b = nullptr;
  const float* bias = nullptr;     // or nullptr
  const T* narrow_bias = nullptr;  // the same, of the operands' type; or nullptr
  const C* addend = nullptr;       // or nullptr; may be c
  C* c = nullptr;
  std::int64_t rows = 0, columns = 0, inner = 0;
  const std::int32_t* count = nullptr;
  bool counts_inner = false;
};

constexpr unsigned kProductThreads = 256;
constexpr unsigned kProductTile = 64;   // rows and columns of c a block computes …
constexpr unsigned kProductDepth = 16;  // … this many of `inner` at a time
constexpr unsigned kProductEach = 4;    // rows and columns of a thread
// Sums of kProductDepth products are summed in groups, and the groups' sums in turn: rounding errors grow with the
// longest of the three sums, not with their product.
constexpr std::int64_t kProductGroup = 16 * kProductDepth;

// tile[inner][outer] of a matrix stored [outer, inner], or else [inner, outer]; zeros beyond its ends.
template <bool kInnerLast, typename T>
__device__ void load_tile(float (&tile)[kProductDepth][kProductTile], const T* from, std::int64_t first_outer,
                          std::int64_t outers, std::int64_t first_inner, std::int64_t inners, std::int64_t pitch) {
  for (unsigned i = threadIdx.x; i < kProductTile * kProductDepth; i += kProductThreads) {
    const unsigned inner = kInnerLast ? i % kProductDepth : i / kProductTile;
    const unsigned outer = kInnerLast ? i / kProductDepth : i % kProductTile;
    const std::int64_t row = first_outer + outer, k = first_inner + inner;
    const bool inside = row < outers && k < inners;
    tile[inner][outer] = inside ? to_float(from[kInnerLast ? row * pitch + k : k * pitch + row]) : 0.0F;
  }
}

// `kTransposedA`: a is stored [inner, rows], else [rows, inner]; `kTransposedB`: b is stored [columns, inner].
template <bool kTransposedA, bool kTransposedB, typename T, typename C>
__global__ void own_product(OwnProduct<T, C> p) {
  PLIMSOLL_SHARED float a_tile[kProductDepth][kProductTile];
  PLIMSOLL_SHARED float b_tile[kProductDepth][kProductTile];
  const std::int64_t real = p.count == nullptr ? 0 : *p.count;
  const std::int64_t rows = p.count != nullptr && !p.counts_inner ? real : p.rows;
  const std::int64_t inner = p.count != nullptr && p.counts_inner ? real : p.inner;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kProductTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kProductTile;
  const std::int64_t depth_end = first_row < rows ? inner : 0;  // zeros after the real rows (sizes/tails.h)

  constexpr unsigned kAcross = kProductTile / kProductEach;
  const unsigned at_row = threadIdx.x / kAcross * kProductEach, at_column = threadIdx.x % kAcross * kProductEach;
  float sums[kProductEach][kProductEach] = {}, of_group[kProductEach][kProductEach] = {};
  for (std::int64_t k = 0; k < depth_end; k += kProductDepth) {
    load_tile<!kTransposedA>(a_tile, p.a, first_row, rows, k, inner, kTransposedA ? p.rows : p.inner);
    load_tile<kTransposedB>(b_tile, p.b, first_column, p.columns, k, inner, kTransposedB ? p.inner : p.columns);
    __syncthreads();
    float of_tile[kProductEach][kProductEach] = {};
    for (unsigned depth = 0; depth < kProductDepth; ++depth) {
      for (unsigned i = 0; i < kProductEach; ++i) {
        for (unsigned j = 0; j < kProductEach; ++j) {
          of_tile[i][j] = fmaf(a_tile[depth][at_row + i], b_tile[depth][at_column + j], of_tile[i][j]);
        }
      }
    }
    for (unsigned i = 0; i < kProductEach; ++i) {
      for (unsigned j = 0; j < kProductEach; ++j) of_group[i][j] += of_tile[i][j];
    }
    if (k % kProductGroup == kProductGroup - kProductDepth || k + kProductDepth >= inner) {
      for (unsigned i = 0; i < kProductEach; ++i) {
        for (unsigned j = 0; j < kProductEach; ++j) {
          sums[i][j] += of_group[i][j];
          of_group[i][j] = 0;
        }
      }
    }
    __syncthreads();
  }
  for (unsigned i = 0; i < kProductEach; ++i) {
    for (unsigned j = 0; j < kProductEach; ++j) {
      const std::int64_t row = first_row + at_row + i, column = first_column + at_column + j;
      if (row >= p.rows || column >= p.columns) continue;
      if (row >= rows) {
        p.c[row * p.columns + column] = from_float<C>(0);
        continue;
      }
      float sum = sums[i][j];
      if (p.bias != nullptr) sum += p.bias[column];
      if (p.narrow_bias != nullptr) sum += to_float(p.narrow_bias[column]);
      if (p.addend != nullptr) sum += to_float(p.addend[row * p.columns + column]);
      p.c[row * p.columns + column] = from_float<C>(sum);
    }
  }
}

template <bool kTransposedA, bool kTransposedB, typename T, typename C>
void start_own_product(cudaStream_t stream, const OwnProduct<T, C>& product) {
  const auto tiles = [](std::int64_t size) { return static_cast<unsigned>((size + kProductTile - 1) / kProductTile); };
  launch(stream, own_product<kTransposedA, kTransposedB, T, C>,
         {.blocks = tiles(product.columns), .threads = kProductThreads, .blocks_y = tiles(product.rows)}, product);
}

}  // namespace plimsoll::cuda
