// Builds the pairs of bfloat16 for dot products, from rows and from floats; compiled once for each Highway target.
#if defined(PLIMSOLL_BACKEND_CPU_ATTENTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_ATTENTION_PAIRS_INL_H_
#undef PLIMSOLL_BACKEND_CPU_ATTENTION_PAIRS_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_ATTENTION_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/dot_product_bf16.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/attention_tile-inl.h"
#include "backend/cpu/simd_transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the head's part of a sample's rows, from row `first` on, as rows of pairs of features.
HWY_INLINE PairRows feature_pairs(const AttentionRows& of, const void* tensor, std::int64_t head, std::int64_t first) {
  return {static_cast<const std::uint16_t*>(head_part(of, tensor, first, head)), of.width};
}

// words[p, i] = features 2p and 2p + 1 of the tile's query i, 0 beyond the tile's count.
HWY_INLINE void turn_pairs(const AttentionProblem& problem, const void* tensor, std::int64_t head,
                           const QueryTile& tile, std::uint32_t* words) {
  const PairRows rows = feature_pairs(problem, tensor, head, tile.first);
  const std::int64_t pairs = problem.head_size / 2;
  // Pairs are moved like floats.
  simd_transpose(reinterpret_cast<const float*>(rows.data), rows.row_stride / 2, tile.count, pairs,
                 reinterpret_cast<float*>(words), kAttentionQueryTile);
  for (std::int64_t p = 0; p < pairs; ++p) {
    std::fill(words + p * kAttentionQueryTile + tile.count, words + p * kAttentionQueryTile + tile.columns, 0U);
  }
}

// words[p, c] = feature c of the first `count` rows 2p and 2p + 1, for p below `pairs`; 0 beyond the count.
HWY_INLINE void pair_rows(const PairRows& rows, std::int64_t count, std::int64_t features, std::int64_t pairs,
                          std::uint32_t* words) {
  for (std::int64_t p = 0; p < pairs; ++p, words += features) {
    const std::uint16_t* const even = rows.data + 2 * p * rows.row_stride;
    if (2 * p + 1 < count) {
      const std::uint16_t* const odd = even + rows.row_stride;
      for (std::int64_t c = 0; c < features; ++c) words[c] = even[c] | std::uint32_t{odd[c]} << 16;
    } else if (2 * p < count) {
      for (std::int64_t c = 0; c < features; ++c) words[c] = even[c];
    } else {
      std::fill_n(words, features, 0U);
    }
  }
}

// Pairs a tile's rows, for all of a tile's pairs.
HWY_INLINE void pair_tile(const AttentionProblem& problem, const void* tensor, std::int64_t head, const QueryTile& tile,
                          std::uint32_t* words) {
  pair_rows(feature_pairs(problem, tensor, head, tile.first), tile.count, problem.head_size, kAttentionQueryTile / 2,
            words);
}

// columns[c, j] = feature c of row first + j of k or v, for their head, for j below problem.turned_stride(); 0 from
// `count` on.
HWY_INLINE void turn_sample(const AttentionProblem& problem, const void* tensor, std::int64_t head, std::int64_t first,
                            std::int64_t count, std::uint16_t* columns) {
  constexpr std::int64_t kPairs = 16, kFeatures = 64;  // at a time
  alignas(64) std::uint32_t words[kPairs * kFeatures];
  PairRows rows = feature_pairs(problem.of_keys, tensor, head, first);
  const std::int64_t stride = problem.turned_stride();
  for (std::int64_t j = 0; j < stride; j += 2 * kPairs, rows.data += 2 * kPairs * rows.row_stride) {
    for (std::int64_t c = 0; c < problem.head_size; c += kFeatures) {
      const std::int64_t features = std::min(kFeatures, problem.head_size - c);
      pair_rows({rows.data + c, rows.row_stride}, count - j, features, kPairs, words);
      simd_transpose(reinterpret_cast<const float*>(words), features, kPairs, features,
                     reinterpret_cast<float*>(columns + c * stride + j), stride / 2);
    }
  }
}

// Returns the number of pairs that hold `rows` rows, rounded up to whole tiles (dot_product_bf16.h).
HWY_INLINE std::int64_t whole_pairs(std::int64_t rows) { return (rows + 31) / 32 * 16; }

// Rounds to bfloat16, to nearest, ties to even; the bits lie in the lower halves. A NaN here shows in the result
// anyway: rounded, it stays NaN or becomes infinite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat16_bits(D, V values) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
