// attention_grad's walk on Hopper's tensor cores: the same as attention_grad.cu's, but a block's four warps multiply
// together, tiles of 64 keys by 64 queries, and the cores read operands from shared memory by themselves. Scores of a
// tile leave the registers as halves once, for dq.
#include "backend/cuda/attention_backward.h"
#include "backend/cuda/attention_warpgroup.h"

namespace plimsoll::cuda {
namespace {

// The random bits of a warp's part of a tile, 16 keys of 64 queries, in the bytes of its rows of a tile of halves. A
// call of Philox serves eight keys of a query (base/dropout.h): a query has two pieces of 16 bytes, which change places
// where the query's number has 4 in it, so that lanes meet no bank twice.
class WarpBits {
 public:
  __device__ explicit WarpBits(void* rows) : pieces_(static_cast<Pack<unsigned, 4>*>(rows)) {}

  // By the lanes of the warp together; queries and keys count from the sample's first row.
  __device__ void draw(const DropoutSite& site, int first_query, int first_key) const {
    __syncwarp();
#pragma unroll
    for (int call = 0; call < 4; ++call) {
      const int query = static_cast<int>(threadIdx.x % kWarp) + call / 2 * static_cast<int>(kWarp), eight = call % 2;
      const PhiloxOutput drawn =
          dropout_words({static_cast<std::uint32_t>(first_query + query),
                         static_cast<std::uint32_t>(first_key / 8 + eight), site.site, site.sample},
                        site.key);
      pieces_[2 * query + (eight ^ (query / 4 % 2))] = {{drawn[0], drawn[1], drawn[2], drawn[3]}};
    }
    __syncwarp();
  }

  // Those of the lane's keys lane / 4 and 8 more, from its queries of a block of eight on.
  struct OfLane {
    const std::uint16_t* of_key[2];
  };
  __device__ OfLane of_lane() const {
    const int lane = static_cast<int>(threadIdx.x % kWarp), query = lane % 4 * 2;
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(pieces_ + 2 * query) + lane / 4;
    return {{bits + query / 4 % 2 * 8, bits + (1 - query / 4 % 2) * 8}};
  }
  __device__ static bool keeps(const OfLane& bits, const AttentionShape& shape, int query, int eight) {
    return bits.of_key[eight][query * 16] >= shape.upper_threshold >> 16;
  }

 private:
  Pack<unsigned, 4>* pieces_;
};

template <typename T, bool kBiased>
struct WarpgroupShared {
  using Form = WarpgroupTiles<T>;
  SharedPieces pieces;
  SharedPiece<T> k, v, q, doutput, biases;  // the last three of each stage
  SharedPiece<T> scores;                    // their gradients; before, the random bits of dropout lie there
  SharedPiece<QueryFacts> queries;          // of each stage
  SharedPiece<unsigned> number;

  PLIMSOLL_HOST_DEVICE WarpgroupShared() {
    // Tiles first: they have to begin at multiples of 1,024 bytes, as shared memory does.
    k = pieces.take<T>(kGroupElements);
    v = pieces.take<T>(kGroupElements);
    q = pieces.take<T>(Form::kStages * kGroupElements);
    doutput = pieces.take<T>(Form::kStages * kGroupElements);
    scores = pieces.take<T>(kGroupElements);
    if (kBiased) biases = pieces.take<T>(Form::kStages * kGroupElements);
    queries = pieces.take<QueryFacts>(Form::kStages * kGroupTile);
    number = pieces.take<unsigned>(1);
  }
};

// Adds a lane's share of dq to what the blocks before have added: it does not wait for that, and the order is theirs
// all the same.
__device__ inline void add_share(Pack<float, 4>* sums, const GroupSums& share) {
#pragma unroll
  for (int n = 0; n < kGroupBlocks; ++n) {
    Pack<float, 4>* const to = sums + n * kWarp;
#ifdef PLIMSOLL_CUDA_EMULATED
    for (int i = 0; i < 4; ++i) to->at[i] += share[n][i];
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(share[n][0]),
                 "f"(share[n][1]), "f"(share[n][2]), "f"(share[n][3])
                 : "memory");
#else
    static_cast<void>(to);  // code for other architectures, which is never started
#endif
  }
}

// Adds what the blocks before have added to a share.
__device__ inline void take_sums(GroupSums& share, const Pack<float, 4>* sums) {
#pragma unroll
  for (int n = 0; n < kGroupBlocks; n += 2) {
    Pack<float, 4> before[2];
    load_sums(before, sums, n);
#pragma unroll
    for (int i = 0; i < 8; ++i) share[n + i / 4][i % 4] += before[i / 4].at[i % 4];
  }
}

// The order in which a block takes the tiles of a sample's queries, and in which blocks add to theirs.
struct Steps {
  int key_tile, tiles;  // the block's, of the sample's
  bool causal, by_step;

  __device__ Steps(const Turns& turns, bool is_causal, unsigned of_keys, int length)
      : key_tile(static_cast<int>(of_keys)),
        tiles((length + kGroupTile - 1) / kGroupTile),
        causal(is_causal),
        by_step(is_causal || turns.goes_around) {}

  // Earlier queries do not see a block's keys where they are causal.
  __device__ int count() const { return causal ? tiles - key_tile : tiles; }
  __device__ int query(int step) const {
    int tile = by_step ? key_tile + step : step;
    if (tile >= tiles) tile -= tiles;
    return tile * kGroupTile;
  }
  // Blocks that add before this one.
  __device__ unsigned turn(int step) const { return static_cast<unsigned>(by_step ? step : key_tile); }
  __device__ bool is_last(int step) const { return causal ? key_tile == 0 : static_cast<int>(turn(step)) == tiles - 1; }
};

template <typename T, bool kBiased>
__global__ void __launch_bounds__(kGroupThreads, WarpgroupTiles<T>::kBlocksAtOnce)
    attention_backward_warpgroup(const BackwardTensors<T> t, const AttentionShape shape) {
  using Form = WarpgroupTiles<T>;
  const AttentionTensors<T>& in = t.in;
  const WarpgroupShared<T, kBiased> shared;
  if (threadIdx.x == 0) *shared.number = atomicAdd(t.turns.begun, 1U);
  __syncthreads();
  const bool shares = !kBiased && shape.group > 1, causal = !kBiased && shape.causal;
  const BlockPlace place = place_of(*shared.number, shape, t.turns.key_tiles, t.turns.goes_around, causal);
  const BlockRows<Form> block(shape, in.offsets, place);
  if (block.first >= block.length) return;
  const Steps steps(t.turns, causal, place.tile, block.length);

  const BlockRows<Form> of_keys = shares ? block.of_keys(shape) : block;
  using Copies = RowCopies<kGroupTile, Form, T>;
  Copies(of_keys, in.k, block.first, shape).next(shared.k, block.real(block.first));
  Copies(of_keys, in.v, block.first, shape).next(shared.v, block.real(block.first));
  using Biases = std::conditional_t<kBiased, BiasCopies<kGroupTile, kGroupTile, false, Form, T>, NoBiasCopies>;
  const auto fetch = [&](int query, int stage) {
    // Made anew for each tile: the registers of where they are would be missing elsewhere.
    Copies(block, in.q, query, shape).next(shared.q + stage * kGroupElements, block.real(query));
    Copies(block, t.doutput, query, shape).next(shared.doutput + stage * kGroupElements, block.real(query));
    if constexpr (kBiased) {
      Biases(block, in.biases, query, block.first, shape)
          .next(shared.biases + stage * kGroupElements, block.real(query));
    }
    copy_query_facts<kGroupTile>(block, shared.queries + stage * kGroupTile, t, shape, query);
    commit_copies();
  };
  fetch(steps.query(0), 0);
  const DropoutSite site(shape, in, block);
  // A warp adds to the dq of 16 queries of a tile, in turn.
  const auto turn_of = [&](int query) {
    return t.turns.added + (block.sample * shape.heads + block.head) * t.turns.row_tiles + query / 16 + block.warp;
  };
  const auto end_turn_of = [&](int step) {
    const int query = steps.query(step);
    if (block.lane == 0 && query + 16 * block.warp < block.length && !steps.is_last(step)) {
      end_turn(turn_of(query), steps.turn(step) + 1);
    }
  };
  const auto set_open = [&](bool(&open)[2]) {  // the lane's two keys
    for (int i = 0; i < 2; ++i) {
      const int key = block.warp_first() + block.lane / 4 + 8 * i;
      open[i] = key < block.length && in.key_mask[block.begin() + key] != 0;
    }
  };
  bool open[2];
  if constexpr (!kBiased) set_open(open);

  GroupSums dk_sums = {}, dv_sums = {};
  const WarpBits bits(shared.scores + 16 * block.warp * kGroupTile);
  const int count = steps.count();
#pragma unroll 1
  for (int step = 0; step < count; ++step) {
    const int first = steps.query(step), stage = step % Form::kStages;
    wait_for_copies<0>();
    show_to_tensor_cores();
    __syncthreads();  // the tile is there, and nobody reads the one before any more
    if (step + 1 < count) fetch(steps.query(step + 1), 1 - stage);
    const T *const q = shared.q + stage * kGroupElements, *const doutput = shared.doutput + stage * kGroupElements;
    GroupSums p, ds;
    if constexpr (kBiased) {
      start_with_biases<InTile::kColumns, T>(p, shared.biases + stage * kGroupElements);
    } else {
      start_without_biases(p, open, block, causal, first);
    }
    begin_products();
    start_product<T, InTile::kRows, InTile::kRows, true>(p, +shared.k, q);
    commit_products();
    start_product<T, InTile::kRows, InTile::kRows, false>(ds, +shared.v, doutput);
    commit_products();

    // The turn before ends here, where nothing waits for what was added.
    if (step > 0) end_turn_of(step - 1);
    if (shape.drops) bits.draw(site, first, block.warp_first());
    const QueryFacts* const facts = shared.queries + stage * kGroupTile + block.lane % 4 * 2;
    wait_for_products<1>();
#pragma unroll
    for (int n = 0; n < kGroupBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[n][i] = exp2_fast(fmaf(p[n][i], shape.scale2, -facts[8 * n + i % 2].log_sum_exp2));
      }
    }
    wait_for_products<0>();
    const WarpBits::OfLane drawn = bits.of_lane();
    GroupPairs p_pairs, ds_pairs;
#pragma unroll
    for (int n = 0; n < kGroupBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool kept = WarpBits::keeps(drawn, shape, 8 * n + i % 2, i / 2);
        const float probability = p[n][i], delta = facts[8 * n + i % 2].delta;
        p[n][i] = kept ? probability : 0.0F;
        ds[n][i] = probability * (kept ? fmaf(ds[n][i], shape.keep_scale, -delta) : -delta);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        p_pairs[n / 2][n % 2 * 2 + i] = pair_of<T>(p[n][2 * i], p[n][2 * i + 1]);
        ds_pairs[n / 2][n % 2 * 2 + i] = pair_of<T>(ds[n][2 * i], ds[n][2 * i + 1]);
      }
    }
    begin_products();
    start_product<T, InTile::kColumns>(dv_sums, p_pairs, doutput);
    start_product<T, InTile::kColumns>(dk_sums, ds_pairs, q);
    commit_products();
    __syncwarp();  // no lane reads random bits any more
    store_pairs<T>(shared.scores, ds_pairs);
    show_to_tensor_cores();
    __syncthreads();
    GroupSums share;
    begin_products();
    start_product<T, InTile::kColumns, InTile::kColumns, false>(share, +shared.scores, +shared.k);
    commit_products();
    const int query = first + 16 * block.warp;
    const unsigned turn = steps.turn(step);
    const bool adds = query < block.length, is_last = steps.is_last(step);
    if (adds && turn > 0 && block.lane == 0)
      is_last ? wait_for_turn(turn_of(first), turn) : wait_to_add(turn_of(first), turn);
    __syncwarp();
    wait_for_products<0>();
    if (!adds) continue;
    auto* const sums = lane_sums<kGroupBlocks>(queries_of(block, t.dq_sums, query, shape), 0);
    if (is_last) {
      if (turn > 0) take_sums(share, sums);
      store_queries(share, block, query, t, shape);
    } else if (turn > 0) {
      add_share(sums, share);
    } else {
#pragma unroll
      for (int n = 0; n < kGroupBlocks; ++n) {
        sums[n * kWarp] = {{share[n][0], share[n][1], share[n][2], share[n][3]}};
      }
    }
  }
  __syncwarp();
  end_turn_of(count - 1);
  if constexpr (kBiased) set_open(open);
  store_keys<true, true>(dk_sums, dv_sums, open, block, shares, t, shape);
}

}  // namespace

template <typename T, bool kBiased>
void prepare_warpgroup_backward(const Context& context) {
  allow_shared_memory(context, attention_backward_warpgroup<T, kBiased>, WarpgroupShared<T, kBiased>().pieces.bytes());
}
template <typename T, bool kBiased>
void start_warpgroup_backward(const Context& context, unsigned blocks, const BackwardTensors<T>& t,
                              const AttentionShape& shape) {
  launch(context.stream(), attention_backward_warpgroup<T, kBiased>,
         {.blocks = blocks, .threads = kGroupThreads, .shared_bytes = WarpgroupShared<T, kBiased>().pieces.bytes()}, t,
         shape);
}

template void prepare_warpgroup_backward<Bf16, true>(const Context&);
template void prepare_warpgroup_backward<Bf16, false>(const Context&);
template void prepare_warpgroup_backward<F16, true>(const Context&);
template void prepare_warpgroup_backward<F16, false>(const Context&);
template void start_warpgroup_backward<Bf16, true>(const Context&, unsigned, const BackwardTensors<Bf16>&,
                                                   const AttentionShape&);
template void start_warpgroup_backward<Bf16, false>(const Context&, unsigned, const BackwardTensors<Bf16>&,
                                                    const AttentionShape&);
template void start_warpgroup_backward<F16, true>(const Context&, unsigned, const BackwardTensors<F16>&,
                                                  const AttentionShape&);
template void start_warpgroup_backward<F16, false>(const Context&, unsigned, const BackwardTensors<F16>&,
                                                   const AttentionShape&);

}  // namespace plimsoll::cuda
