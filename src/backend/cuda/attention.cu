// attention: Dao et al. 2022, "FlashAttention", as reordered in Dao 2023, "FlashAttention-2": a block keeps its queries
// and walks over the keys with a running maximum and sum; scores, biases and dropout live in registers.
#include <type_traits>

#include "backend/cuda/attention.h"

namespace plimsoll::cuda {
namespace {

template <typename T, int kWidth>
struct ForwardShared {
  using Form = AttentionTiles<T, kWidth>;
  using Bits = DropoutBits<16, Form::kTile>;
  static constexpr int kKeys = Form::kTile * Form::kLeading;
  SharedPieces pieces;
  SharedPiece<T> q, k, v;  // k and v of each stage
  SharedPiece<RowFacts> rows, columns;
  SharedPiece<float> staging, distances;
  SharedPiece<unsigned> bits;

  PLIMSOLL_HOST_DEVICE ForwardShared(const AttentionShape& shape, int stages) {
    q = pieces.take<T>(Form::kRows * Form::kLeading);
    k = pieces.take<T>(stages * kKeys);
    v = pieces.take<T>(stages * kKeys);
    rows = pieces.take<RowFacts>(Form::kRows);
    columns = pieces.take<RowFacts>(stages * Form::kTile);
    staging = pieces.take<float>(Form::kStaging * Form::kWarps);
    bits = pieces.take<unsigned>(Bits::kWords * Form::kWarps);
    distances = pieces.take<float>(shape.distances());
  }
};

// The largest, or the sum, of the four lanes that hold a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float row_total(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(AttentionTiles<T, kWidth>::kThreads, AttentionTiles<T, kWidth>::kBlocksAtOnce)
    attention(const AttentionTensors<T> in, const AttentionShape shape, T* output, float* log_sum_exp) {
  using Form = AttentionTiles<T, kWidth>;
  using Shared = ForwardShared<T, kWidth>;
  constexpr int kTile = Form::kTile;
  const BlockRows<Form> block(shape, in.offsets);
  if (block.first >= block.end) return;
  const Shared shared(shape, Form::kStages);

  copy_rows<Form::kRows>(block, +shared.q, in.q, block.first, shape);
  copy_facts<Form::kRows>(block, shared.rows, in, block.first);
  const auto fetch = [&](std::int64_t key, int stage) {
    copy_rows<kTile>(block, shared.k + stage * Shared::kKeys, in.k, key, shape);
    copy_rows<kTile>(block, shared.v + stage * Shared::kKeys, in.v, key, shape);
    copy_facts<kTile>(block, shared.columns + stage * kTile, in, key);
    commit_copies();
  };
  fetch(block.begin, 0);
  const DistanceTables tables = make_distance_tables<Form::kThreads>(shared.distances, shape, in, block.head);
  const DropoutSite site(shape, in, block);
  const typename Shared::Bits bits{shared.bits + block.warp * Shared::Bits::kWords};

  float out[Form::kOutBlocks][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  LaneRows<false> rows;
  walk(block, fetch, [&](std::int64_t key, int stage) {
    if (key == block.begin) rows = LaneRows<false>(tables, shared.rows);
    if (shape.drops) bits.draw(site, block.warp_first() - block.begin, key - block.begin);

    float scores[Form::kBlocks][4] = {};
    add_product_transposed<kWidth>(scores, shared.q + 16 * block.warp * Form::kLeading,
                                   shared.k + stage * Shared::kKeys);
    float tile_largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < Form::kBlocks; ++n) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const RowFacts column = (shared.columns + stage * kTile)[8 * n + block.lane % 4 * 2 + side];
        const float shut = column.shut();
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float& score = scores[n][2 * row + side];
          score = fmaf(score, shape.scale2, shut) + rows.bias(tables, row, column);
          tile_largest[row] = fmaxf(tile_largest[row], score);
        }
      }
    }
    float base[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float new_largest = fmaxf(largest[i], row_max(tile_largest[i]));
      base[i] = new_largest == -INFINITY ? 0.0F : new_largest;  // all keys so far are masked
      const float correction = exp2_fast(largest[i] - base[i]);
      largest[i] = new_largest;
      sum[i] *= correction;
#pragma unroll
      for (int n = 0; n < Form::kOutBlocks; ++n) {
        out[n][2 * i] *= correction;
        out[n][2 * i + 1] *= correction;
      }
    }
#pragma unroll
    for (int n = 0; n < Form::kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = exp2_fast(scores[n][i] - base[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    }
    if (shape.drops) {
#pragma unroll
      for (int n = 0; n < Form::kBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + block.lane % 4 * 2 + i % 2;
          if (!bits.keeps(shape, block.lane / 4 + 8 * (i / 2), column)) scores[n][i] = 0;
        }
      }
    }
    add_product(out, scores, shared.v + stage * Shared::kKeys, shared.staging + block.warp * Form::kStaging);
  });

  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float total = row_total(sum[i]);
    factor[i] = total == 0 ? 0.0F : shape.keep_scale / total;  // a NaN stays one, whatever dropout took away
    const std::int64_t row = block.warp_first() + block.lane / 4 + 8 * i;
    if (block.lane % 4 == 0 && row < block.end) {
      store_parts(total == 0 ? -INFINITY : double{largest[i]} * kLn2 + double{logf(total)},
                  log_sum_exp + 2 * (row * shape.heads + block.head));
    }
  }
  store_rows<T>(out, factor[0], factor[1], block.row_of(output, block.warp_first()), block.real(block.warp_first()),
                shape);
}

template <typename T, int kWidth>
std::unique_ptr<Kernel> make_forward(const Context& context, const AttentionShape& shape, std::int64_t longest) {
  using Form = AttentionTiles<T, kWidth>;
  const std::size_t shared_bytes = ForwardShared<T, kWidth>(shape, Form::stages(context)).pieces.bytes();
  allow_shared_memory(context, attention<T, kWidth>, shared_bytes);
  return make_launch(0, [=, &context](const KernelArguments& a) {
    launch(context.stream(), attention<T, kWidth>, grid_of<Form>(shape, a.bound(longest), shared_bytes),
           AttentionTensors<T>(a, shape.form), shape, output<T>(a, 0), output<float>(a, 1));
  });
}

}  // namespace

std::unique_ptr<Kernel> make_attention(const Context& context, const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node);
  const TensorType& q = graph.type(node.inputs[0]);
  const std::int64_t longest = std::get<AttentionAttributes>(node.attributes).longest_sample;
  return for_floating(q.dtype, [&]<typename T>(T) {
    return for_width(shape.head_size, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      return make_forward<T, kWidth>(context, shape, longest > 0 ? longest : q.shape[0]);
    });
  });
}

}  // namespace plimsoll::cuda
