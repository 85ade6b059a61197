// The layout of tiles in attention's kernels by warpgroups (attention_warpgroup.cu, attention_grad_warpgroup.cu).
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/warpgroup_products.h"

namespace plimsoll::cuda {

template <typename T>
struct WarpgroupTiles : AttentionTiles<T, kGroupTile, true> {
  using Base = AttentionTiles<T, kGroupTile, true>;
  static_assert(kGroupTile == kWarpgroupHeadSize && Base::kRows == kGroupTile && Base::kTile == kGroupTile &&
                Base::kThreads == kGroupThreads);
  template <int kTileColumns>
  static constexpr int leading_of = kGroupTile;
  template <int kTileColumns>
  PLIMSOLL_HOST_DEVICE static constexpr int offset(int row, int column) {
    static_assert(kTileColumns == kGroupTile);
    return group_offset(row, column);
  }
  static constexpr int kLeading = kGroupTile;
  static constexpr int kStages = 2, kBlocksAtOnce = 3;
};

// Initializes scores with a tile of biases, [queries][keys], of which the warp takes its 16 queries, or its 16 keys, as
// rows.
template <InTile kRowsAre, typename T>
__device__ void start_with_biases(GroupSums& scores, const T* tile) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = group_warp();
  const int matrix = lane / 8, below = matrix % 2 * 8, beside = matrix / 2 * 8;
#pragma unroll
  for (int n = 0; n < kGroupBlocks; n += 2) {
    std::uint32_t pairs[4];
    if constexpr (kRowsAre == InTile::kRows) {
      load_matrices<false>(tile + group_offset(16 * warp + below + lane % 8, 8 * n + beside), pairs);
    } else {
      load_matrices<true>(tile + group_offset(8 * n + beside + lane % 8, 16 * warp + below), pairs);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* const sums = scores[n + i / 2] + 2 * (i % 2);
      sums[0] = to_float(T{static_cast<std::uint16_t>(pairs[i])});
      sums[1] = to_float(T{static_cast<std::uint16_t>(pairs[i] >> 16)});
    }
  }
}

}  // namespace plimsoll::cuda
