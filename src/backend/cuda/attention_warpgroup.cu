// attention on Hopper's tensor cores: the same walk as attention.cu's, but a block's four warps multiply together,
// tiles of 64 queries by 64 keys.
#include "backend/cuda/attention_forward.h"
#include "backend/cuda/attention_warpgroup.h"

namespace plimsoll::cuda {
namespace {

template <typename T, bool kBiased>
struct WarpgroupShared {
  using Form = WarpgroupTiles<T>;
  using Bits = DropoutBits<16, kGroupTile>;
  SharedPieces pieces;
  SharedPiece<T> q, k, v, biases;  // the last three of each stage
  SharedPiece<std::int32_t> mask;  // of each stage
  SharedPiece<unsigned> bits;

  PLIMSOLL_HOST_DEVICE WarpgroupShared() {
    // Tiles first: they have to begin at multiples of 1,024 bytes, as shared memory does.
    q = pieces.take<T>(kGroupElements);
    k = pieces.take<T>(Form::kStages * kGroupElements);
    v = pieces.take<T>(Form::kStages * kGroupElements);
    if (kBiased) {
      biases = pieces.take<T>(Form::kStages * kGroupElements);
    } else {
      mask = pieces.take<std::int32_t>(Form::kStages * kGroupTile);
    }
    bits = pieces.take<unsigned>(Bits::kWords * Form::kWarps);
  }
};

template <typename T, bool kBiased>
__global__ void __launch_bounds__(kGroupThreads, WarpgroupTiles<T>::kBlocksAtOnce)
    attention_warpgroup(const AttentionTensors<T> in, const AttentionShape shape, T* output, float* log_sum_exp,
                        std::int64_t bound) {
  using Form = WarpgroupTiles<T>;
  using Shared = WarpgroupShared<T, kBiased>;
  const BlockRows<Form> block(shape, in.offsets);
  clear_tail(block, in.offsets, shape, output, bound);
  if (block.first >= block.length) return;
  const Shared shared;

  using Copies = RowCopies<kGroupTile, Form, T>;
  Copies(block, in.q, block.first, shape).next(shared.q, block.real(block.first));
  const BlockRows<Form> of_keys = kBiased ? block : block.of_keys(shape);  // with biases, heads do not share keys
  Copies k(of_keys, in.k, 0, shape), v(of_keys, in.v, 0, shape);
  using Biases = std::conditional_t<kBiased, BiasCopies<kGroupTile, kGroupTile, true, Form, T>, NoBiasCopies>;
  Biases biases(block, in.biases, block.first, 0, shape);
  const auto fetch = [&](int key, int stage) {
    k.next(shared.k + stage * kGroupElements, block.real(key));
    v.next(shared.v + stage * kGroupElements, block.real(key));
    if constexpr (kBiased) {
      biases.next(shared.biases + stage * kGroupElements, block.real(block.first));
    } else {
      copy_mask<kGroupTile>(block, shared.mask + stage * kGroupTile, in.key_mask, key);
    }
    commit_copies();
  };
  fetch(0, 0);
  const DropoutSite site(shape, in, block);
  const typename Shared::Bits bits{shared.bits + block.warp * Shared::Bits::kWords};

  GroupSums out = {};
  RunningSoftmax softmax;
  const bool causal = !kBiased && shape.causal;  // never with biases
  const int seen = causal && block.first + Form::kRows < block.length ? block.first + Form::kRows : block.length;
#pragma unroll 1
  for (int key = 0, stage = 0; key < seen; key += kGroupTile, stage = 1 - stage) {
    wait_for_copies<0>();
    show_to_tensor_cores();
    __syncthreads();  // the tile has arrived, and the previous one is no longer read
    if (key + kGroupTile < seen) fetch(key + kGroupTile, 1 - stage);
    GroupSums scores;
    if constexpr (kBiased) {
      start_with_biases<InTile::kRows, T>(scores, shared.biases + stage * kGroupElements);
    } else {
      start_with_mask(scores, shared.mask + stage * kGroupTile, block, causal, key);
    }
    begin_products();
    start_product<T, InTile::kRows, InTile::kRows, true>(scores, +shared.q, shared.k + stage * kGroupElements);
    commit_products();
    if (shape.drops) bits.draw(site, block.warp_first(), key);
    wait_for_products<0>();
    softmax.take(scores, out, shape.scale2);
    if (shape.drops) drop(scores, bits, shape);
    GroupPairs pairs;
    round_sums<T>(scores, pairs);
    begin_products();
    start_product<T, InTile::kColumns>(out, pairs, shared.v + stage * kGroupElements);
    commit_products();
    wait_for_products<0>();
  }
  softmax.store(out, block, shape, output, log_sum_exp);
}

}  // namespace

bool has_warpgroups(const Context& context) {
#ifdef PLIMSOLL_HAS_WARPGROUPS
  return context.architecture() == 90;
#else
  static_cast<void>(context);
  return false;
#endif
}

template <typename T, bool kBiased>
void prepare_warpgroup_attention(const Context& context) {
  allow_shared_memory(context, attention_warpgroup<T, kBiased>, WarpgroupShared<T, kBiased>().pieces.bytes());
}
template <typename T, bool kBiased>
void start_warpgroup_attention(const Context& context, std::int64_t longest, const AttentionTensors<T>& in,
                               const AttentionShape& shape, T* output, float* log_sum_exp, std::int64_t bound) {
  launch(context.stream(), attention_warpgroup<T, kBiased>,
         grid_of<WarpgroupTiles<T>>(shape, longest, WarpgroupShared<T, kBiased>().pieces.bytes()), in, shape, output,
         log_sum_exp, bound);
}

template void prepare_warpgroup_attention<Bf16, true>(const Context&);
template void prepare_warpgroup_attention<Bf16, false>(const Context&);
template void prepare_warpgroup_attention<F16, true>(const Context&);
template void prepare_warpgroup_attention<F16, false>(const Context&);
template void start_warpgroup_attention<Bf16, true>(const Context&, std::int64_t, const AttentionTensors<Bf16>&,
                                                    const AttentionShape&, Bf16*, float*, std::int64_t);
template void start_warpgroup_attention<Bf16, false>(const Context&, std::int64_t, const AttentionTensors<Bf16>&,
                                                     const AttentionShape&, Bf16*, float*, std::int64_t);
template void start_warpgroup_attention<F16, true>(const Context&, std::int64_t, const AttentionTensors<F16>&,
                                                   const AttentionShape&, F16*, float*, std::int64_t);
template void start_warpgroup_attention<F16, false>(const Context&, std::int64_t, const AttentionTensors<F16>&,
                                                    const AttentionShape&, F16*, float*, std::int64_t);

}  // namespace plimsoll::cuda
