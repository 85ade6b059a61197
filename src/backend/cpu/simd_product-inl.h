// Matrix products on small tiles, compiled once for each Highway target: for attention, relations and products of a few
// rows with a weight.
//
// C[m, n] (+)= A[m, k] B[k, n]. Rows of B and C are whole vectors; A is read one number at a time, so it may be
// row-major or column-major. Blocks of C stay in registers while k runs; every element is summed over k in order,
// whatever block it falls into.
//
//   simd_product(ProductColumns{v, width}, head_size, keys, probabilities, tile, output, tile, tile,
//   ProductSum::kAdd);
#if defined(PLIMSOLL_BACKEND_CPU_SIMD_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_SIMD_PRODUCT_INL_H_
#undef PLIMSOLL_BACKEND_CPU_SIMD_PRODUCT_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_SIMD_PRODUCT_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Blocks of 6 x 4 vectors fill 32 registers (24 sums, 4 of B, 1 of A), 6 x 2 fill 16.
constexpr int kProductRows = 6;
#if HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
constexpr int kProductVectors = 2;
#else
constexpr int kProductVectors = 4;
#endif

// A[i, k] = data[i * stride + k]
struct ProductRows {
  const float* data;
  std::int64_t stride;
  HWY_INLINE float at(std::int64_t i, std::int64_t k) const { return data[i * stride + k]; }
};
// A[i, k] = data[k * stride + i]
struct ProductColumns {
  const float* data;
  std::int64_t stride;
  HWY_INLINE float at(std::int64_t i, std::int64_t k) const { return data[k * stride + i]; }
};

// Says what happens to C's old values.
enum class ProductSum {
  kStore,  // overwritten
  kAdd     // C's old values are added to; with `factors`, one for each column, after they are multiplied by them
};

// A product may do something else at each step of k, such as fetching the next data; this does nothing.
struct NothingBeside {
  HWY_INLINE void operator()(std::int64_t) const {}
};

template <int kRows, int kVectors, class A, class Beside>
HWY_INLINE void product_block(const A a, std::int64_t first_row, std::int64_t depth, const float* b,
                              std::int64_t b_stride, float* c, std::int64_t c_stride, ProductSum sum,
                              const float* factors, Beside& beside) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    beside(k);
    hn::Vec<decltype(d)> row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + k * b_stride + j * lanes);
    for (int i = 0; i < kRows; ++i) {
      const auto factor = hn::Set(d, a.at(first_row + i, k));
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(factor, row[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    float* const to = c + (first_row + i) * c_stride;
    for (int j = 0; j < kVectors; ++j) {
      auto value = sums[i][j];
      if (sum == ProductSum::kAdd) {
        const auto old = hn::LoadU(d, to + j * lanes);
        value = factors == nullptr ? hn::Add(old, value) : hn::MulAdd(old, hn::Load(d, factors + j * lanes), value);
      }
      hn::StoreU(value, d, to + j * lanes);
    }
  }
}

// Multiplies the remaining `rows` (< kRows + 1) rows with a block of exactly their height.
template <int kRows, int kVectors, class A, class Beside>
HWY_INLINE void product_rest(std::int64_t rows, const A a, std::int64_t first_row, std::int64_t depth, const float* b,
                             std::int64_t b_stride, float* c, std::int64_t c_stride, ProductSum sum,
                             const float* factors, Beside& beside) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      product_block<kRows, kVectors>(a, first_row, depth, b, b_stride, c, c_stride, sum, factors, beside);
    } else {
      product_rest<kRows - 1, kVectors>(rows, a, first_row, depth, b, b_stride, c, c_stride, sum, factors, beside);
    }
  }
}

template <int kVectors, class A, class Beside>
HWY_NOINLINE void product_columns(const A a, std::int64_t rows, std::int64_t depth, const float* b,
                                  std::int64_t b_stride, float* c, std::int64_t c_stride, ProductSum sum,
                                  const float* factors, Beside& beside) {
  std::int64_t i = 0;
  for (; i + kProductRows <= rows; i += kProductRows) {
    product_block<kProductRows, kVectors>(a, i, depth, b, b_stride, c, c_stride, sum, factors, beside);
  }
  product_rest<kProductRows - 1, kVectors>(rows - i, a, i, depth, b, b_stride, c, c_stride, sum, factors, beside);
}

template <int kVectors, class A, class Beside>
HWY_INLINE void product_last_columns(std::int64_t vectors, const A a, std::int64_t rows, std::int64_t depth,
                                     const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                                     ProductSum sum, const float* factors, Beside& beside) {
  if constexpr (kVectors > 0) {
    if (vectors == kVectors) {
      product_columns<kVectors>(a, rows, depth, b, b_stride, c, c_stride, sum, factors, beside);
    } else {
      product_last_columns<kVectors - 1>(vectors, a, rows, depth, b, b_stride, c, c_stride, sum, factors, beside);
    }
  }
}

// Computes C[rows, columns] from A[rows, depth] and B[depth, columns]. `columns` and B's stride are multiples of the
// target's lanes, and B and `factors` are aligned to vectors. C overlaps neither input.
template <class A, class Beside>
HWY_INLINE void simd_product(const A a, std::int64_t rows, std::int64_t depth, const float* b, std::int64_t b_stride,
                             float* c, std::int64_t c_stride, std::int64_t columns, ProductSum sum,
                             const float* factors, Beside& beside) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t j = 0;
  for (; j + kProductVectors * lanes <= columns; j += kProductVectors * lanes) {
    product_columns<kProductVectors>(a, rows, depth, b + j, b_stride, c + j, c_stride, sum,
                                     factors == nullptr ? nullptr : factors + j, beside);
  }
  product_last_columns<kProductVectors - 1>((columns - j) / lanes, a, rows, depth, b + j, b_stride, c + j, c_stride,
                                            sum, factors == nullptr ? nullptr : factors + j, beside);
}
template <class A>
HWY_INLINE void simd_product(const A a, std::int64_t rows, std::int64_t depth, const float* b, std::int64_t b_stride,
                             float* c, std::int64_t c_stride, std::int64_t columns, ProductSum sum,
                             const float* factors = nullptr) {
  NothingBeside nothing;
  simd_product(a, rows, depth, b, b_stride, c, c_stride, columns, sum, factors, nothing);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
