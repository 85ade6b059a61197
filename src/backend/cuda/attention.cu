// attention: Dao et al. 2022, "FlashAttention", as reordered in Dao 2023, "FlashAttention-2": a block keeps its queries
// and walks over the keys with a running maximum and sum; scores and dropout live in registers.
#include <type_traits>

#include "backend/cuda/attention_forward.h"

namespace plimsoll::cuda {
namespace {

// Tiles are half as large as the gradient's if a head has 64 columns of halves: scores then leave enough registers for
// four blocks per multiprocessor, which hide each other's waiting better than two with larger tiles.
template <typename T, int kWidth, bool kExact>
struct ForwardTiles : AttentionTiles<T, kWidth, kExact> {
  using Base = AttentionTiles<T, kWidth, kExact>;
  static constexpr bool kHalved = Base::kHalf && kWidth == 64;
  static constexpr int kTile = kHalved ? Base::kTile / 2 : Base::kTile, kBlocks = kTile / 8;
  static constexpr int kStaging = Base::kHalf ? 0 : 16 * leading<float>(kTile);  // floats per warp, for add_product
  // The number of blocks that fit a multiprocessor's registers and, before Hopper, its shared memory; with one more,
  // ptxas would spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kBlocksAtOnce = Base::kHalf ? 2 : 4;
#else
  static constexpr int kBlocksAtOnce = kHalved || !Base::kHalf ? 4 : 2;
#endif
};

template <typename T, int kWidth, bool kExact, bool kBiased>
struct ForwardShared {
  using Form = ForwardTiles<T, kWidth, kExact>;
  using Bits = DropoutBits<16, Form::kTile>;
  static constexpr int kKeys = Form::kTile * Form::kLeading, kBiases = Form::kRows * leading<T>(Form::kTile);
  SharedPieces pieces;
  SharedPiece<T> q, k, v, biases;  // the last three of each stage
  SharedPiece<std::int32_t> mask;  // of each stage
  SharedPiece<float> staging;
  SharedPiece<unsigned> bits;

  PLIMSOLL_HOST_DEVICE explicit ForwardShared(int stages) {
    q = pieces.take<T>(Form::kRows * Form::kLeading);
    k = pieces.take<T>(stages * kKeys);
    v = pieces.take<T>(stages * kKeys);
    if (kBiased) {
      biases = pieces.take<T>(stages * kBiases);
    } else {
      mask = pieces.take<std::int32_t>(stages * Form::kTile);
    }
    staging = pieces.take<float>(Form::kStaging * Form::kWarps);
    bits = pieces.take<unsigned>(Bits::kWords * Form::kWarps);
  }
};

template <typename T, int kWidth, bool kExact, bool kBiased>
__global__ void __launch_bounds__(ForwardTiles<T, kWidth, kExact>::kThreads,
                                  ForwardTiles<T, kWidth, kExact>::kBlocksAtOnce)
    attention(const AttentionTensors<T> in, const AttentionShape shape, T* output, float* log_sum_exp,
              std::int64_t bound) {
  using Form = ForwardTiles<T, kWidth, kExact>;
  using Shared = ForwardShared<T, kWidth, kExact, kBiased>;
  constexpr int kTile = Form::kTile;
  const BlockRows<Form> block(shape, in.offsets);
  clear_tail(block, in.offsets, shape, output, bound);
  if (block.first >= block.length) return;
  const int stages = Form::stages(device_architecture());
  const Shared shared(stages);

  RowCopies<Form::kRows, Form, T>(block, in.q, block.first, shape).next(shared.q, block.real(block.first));
  const BlockRows<Form> of_keys = kBiased ? block : block.of_keys(shape);  // with biases, heads do not share keys
  RowCopies<kTile, Form, T> k(of_keys, in.k, 0, shape), v(of_keys, in.v, 0, shape);
  using Biases = std::conditional_t<kBiased, BiasCopies<Form::kRows, kTile, true, Form, T>, NoBiasCopies>;
  Biases biases(block, in.biases, block.first, 0, shape);
  const auto fetch = [&](int key, int stage) {
    k.next(shared.k + stage * Shared::kKeys, block.real(key));
    v.next(shared.v + stage * Shared::kKeys, block.real(key));
    if constexpr (kBiased) {
      biases.next(shared.biases + stage * Shared::kBiases, block.real(block.first));
    } else {
      copy_mask<kTile>(block, shared.mask + stage * kTile, in.key_mask, key);
    }
    commit_copies();
  };
  fetch(0, 0);
  const DropoutSite site(shape, in, block);
  const typename Shared::Bits bits{shared.bits + block.warp * Shared::Bits::kWords};

  float out[Form::kOutBlocks][4] = {};
  RunningSoftmax softmax;
  const bool causal = !kBiased && shape.causal;  // never with biases
  const int seen = causal && block.first + Form::kRows < block.length ? block.first + Form::kRows : block.length;
  walk<Form>(0, seen, stages, fetch, [&](int key, int stage) {
    if (shape.drops) bits.draw(site, block.warp_first(), key);

    float scores[Form::kBlocks][4];
    if constexpr (kBiased) {
      constexpr int kLeading = leading<T>(kTile);
      start_scores<false, kLeading>(scores, shared.biases + stage * Shared::kBiases + 16 * block.warp * kLeading);
    } else {
      start_with_mask(scores, shared.mask + stage * kTile, block, causal, key);
    }
    add_product_transposed<kWidth>(scores, shared.q + 16 * block.warp * Form::kLeading,
                                   shared.k + stage * Shared::kKeys);
    softmax.take(scores, out, shape.scale2);
    if (shape.drops) drop(scores, bits, shape);
    add_product(out, scores, shared.v + stage * Shared::kKeys, shared.staging + block.warp * Form::kStaging);
  });

  softmax.store(out, block, shape, output, log_sum_exp);
}

template <typename T, int kWidth, bool kExact, bool kBiased>
std::unique_ptr<Kernel> make_forward(const Context& context, const AttentionShape& shape, std::size_t scratch_bytes) {
  using Form = ForwardTiles<T, kWidth, kExact>;
  const std::size_t shared_bytes =
      ForwardShared<T, kWidth, kExact, kBiased>(Form::stages(context.architecture())).pieces.bytes();
  constexpr bool kForGroups = kForWarpgroups<T, kWidth, kExact>;
  const bool by_groups = kForGroups && has_warpgroups(context);
  if constexpr (kForGroups) {
    if (by_groups) prepare_warpgroup_attention<T, kBiased>(context);
  }
  if (!by_groups) allow_shared_memory(context, attention<T, kWidth, kExact, kBiased>, shared_bytes);
  prepare_biases<T>(context, shape);
  return make_launch(scratch_bytes, [=, &context](const KernelArguments& a) {
    const std::int64_t longest = a.bound(shape.longest);
    AttentionTensors<T> in(a, shape.form);
    make_biases(context, in, shape, longest, a.scratch.data());
    if constexpr (kForGroups) {
      if (by_groups) {
        return start_warpgroup_attention<T, kBiased>(context, longest, in, shape, output<T>(a, 0), output<float>(a, 1),
                                                     rows_of(a, a.outputs[0]).capacity);
      }
    }
    launch(context.stream(), attention<T, kWidth, kExact, kBiased>, grid_of<Form>(shape, longest, shared_bytes), in,
           shape, output<T>(a, 0), output<float>(a, 1), rows_of(a, a.outputs[0]).capacity);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_attention(const Context& context, const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node);
  const std::size_t scratch_bytes = attention_bias_bytes(graph, node, shape);
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) {
    return for_head(shape.head_size, [&]<int kWidth, bool kExact>(HeadForm<kWidth, kExact>) {
      return shape.bias_stride > 0 ? make_forward<T, kWidth, kExact, true>(context, shape, scratch_bytes)
                                   : make_forward<T, kWidth, kExact, false>(context, shape, scratch_bytes);
    });
  });
}

}  // namespace plimsoll::cuda
