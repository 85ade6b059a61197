// attention_grad's walk on Hopper's tensor cores: the same as attention_grad.cu's, but a block has three warpgroups,
// each of which keeps 64 keys and multiplies tiles of them by the current 64 queries, the same for all three; the cores
// read operands from shared memory themselves. Scores of a tile leave the registers once, as halves, for dq: the groups
// take turns, and one computes the whole block's share while the others begin with the next queries.
#include "backend/cuda/attention_backward.h"
#include "backend/cuda/attention_warpgroup.h"

namespace plimsoll::cuda {
namespace {

// The random bits of a warp's part of a tile, 16 keys of 64 queries, in the bytes of its rows of a tile of halves. A
// Philox call serves eight keys of a query (base/dropout.h): a query has two pieces of 16 bytes, which are swapped if
// bit 2 of the query's number is set, so that lanes have no bank conflicts.
class WarpBits {
 public:
  __device__ explicit WarpBits(void* rows) : pieces_(static_cast<Pack<unsigned, 4>*>(rows)) {}

  // Draws the bits; all lanes of the warp call it. Queries and keys count from the sample's first row.
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

  // The bits of the lane's keys, lane / 4 and 8 more, from its queries in a block of eight on.
  struct OfLane {
    const std::uint16_t* of_key[2];
  };
  __device__ OfLane of_lane() const {
    const int lane = static_cast<int>(threadIdx.x % kWarp), query = lane % 4 * 2;
    const auto* const bits = reinterpret_cast<const std::uint16_t*>(pieces_ + 2 * query) + lane / 4;
    return {{bits + query / 4 % 2 * 8, bits + (1 - query / 4 % 2) * 8}};
  }
  __device__ static bool keeps(const OfLane& bits, const AttentionShape& shape, int query, int eight) {
    return bits.of_key[eight][query * 16] >= shape.threshold;
  }

 private:
  Pack<unsigned, 4>* pieces_;
};

template <typename T>
struct GradGroups : WarpgroupTiles<T> {
  static constexpr int kRows = kGradGroups * kGroupTile, kThreads = kGradGroups * kGroupThreads;
  // A stage is refilled when all products with it are complete, which is known two tiles later. The group with a
  // stage's number computes the share in the dq of its queries.
  static constexpr int kStages = 3;
  static_assert(kStages == kGradGroups && kRows == kGradRows);
};

template <typename T, bool kBiased>
struct WarpgroupShared {
  using Form = GradGroups<T>;
  static constexpr int kOfGroups = kGradGroups * kGroupElements;
  SharedPieces pieces;
  SharedPiece<T> k, v;        // of each group
  SharedPiece<T> q, doutput;  // of each stage
  SharedPiece<T> biases;      // of each stage, of each group
  // The gradients of scores, of each group, for this tile of queries and the previous one; before they are stored, the
  // space holds the random bits of dropout.
  SharedPiece<T> scores;
  SharedPiece<float> log_sums, deltas;  // QueryFacts of each stage
  SharedPiece<unsigned> number;

  PLIMSOLL_HOST_DEVICE WarpgroupShared() {
    // Tiles first: they have to begin at multiples of 1,024 bytes, as shared memory does.
    k = pieces.take<T>(kOfGroups);
    v = pieces.take<T>(kOfGroups);
    q = pieces.take<T>(Form::kStages * kGroupElements);
    doutput = pieces.take<T>(Form::kStages * kGroupElements);
    scores = pieces.take<T>(2 * kOfGroups);
    if (kBiased) biases = pieces.take<T>(Form::kStages * kOfGroups);
    log_sums = pieces.take<float>(Form::kStages * kGroupTile);
    deltas = pieces.take<float>(Form::kStages * kGroupTile);
    number = pieces.take<unsigned>(1);
  }
};

// Does the same as copy_query_facts, into arrays of which a lane takes two neighbours at once.
template <typename T, typename Form>
__device__ void copy_query_sums(const BlockRows<Form>& block, float* log_sums, float* deltas,
                                const BackwardTensors<T>& t, const AttentionShape& shape, int first) {
  const int row = group_thread();
  if (row >= kGroupTile) return;
  if (row >= block.real(first)) {
    log_sums[row] = INFINITY;
    deltas[row] = 0;
    return;
  }
  const std::int64_t at = (block.begin() + first + row) * shape.heads + block.head;
  copy_async<4>(log_sums + row, t.sums.log_sums2 + 2 * at, true);
  copy_async<4>(deltas + row, t.sums.delta + at, true);
}

// Holds a number of each of the lane's columns of a tile, which are queries.
struct OfQueries {
  Pack<float, 2> at[kGroupBlocks];
  __device__ explicit OfQueries(const float* of_tile) {
    const auto* const from = reinterpret_cast<const Pack<float, 2>*>(of_tile) + threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < kGroupBlocks; ++n) at[n] = from[4 * n];
  }
};

// Adds a lane's share of dq to what the previous blocks have added, without waiting for the result; the order of blocks
// is kept.
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
    static_cast<void>(to);  // code for other architectures, which is never launched
#endif
  }
}

// Adds to a share what the previous blocks have added.
__device__ inline void take_sums(GroupSums& share, const Pack<float, 4>* sums) {
#pragma unroll
  for (int n = 0; n < kGroupBlocks; n += 2) {
    Pack<float, 4> before[2];
    load_sums(before, sums, n);
#pragma unroll
    for (int i = 0; i < 8; ++i) share[n + i / 4][i % 4] += before[i / 4].at[i % 4];
  }
}

// The order in which a block takes the tiles of a sample's queries, and in which blocks add to theirs. If blocks go
// around or are causal, each begins at the queries of its own keys.
struct Steps {
  int block, blocks, tiles;  // its number, of the sample's; tiles of queries
  bool causal, by_step;

  __device__ Steps(const Turns& turns, bool is_causal, unsigned number, int length)
      : block(static_cast<int>(number)),
        blocks((length + kGradRows - 1) / kGradRows),
        tiles((length + kGroupTile - 1) / kGroupTile),
        causal(is_causal),
        by_step(is_causal || turns.goes_around) {}

  // If causal, earlier queries do not see a block's keys.
  __device__ int count() const { return causal ? tiles - kGradGroups * block : tiles; }
  __device__ int query(int step) const {
    int tile = by_step ? kGradGroups * block + step : step;
    if (tile >= tiles) tile -= tiles;
    return tile * kGroupTile;
  }
  // Returns how many blocks add before this one: those that began in between, or, if it has gone around, those after it
  // and those from the first on.
  __device__ unsigned turn(int step) const {
    const int beyond = kGradGroups * block + step - tiles;
    return static_cast<unsigned>(!by_step     ? block
                                 : beyond < 0 ? step / kGradGroups
                                              : blocks - block + beyond / kGradGroups);
  }
  __device__ bool is_last(int step) const { return causal ? block == 0 : static_cast<int>(turn(step)) == blocks - 1; }
};

template <typename T, bool kBiased>
__global__ void __launch_bounds__(kGradGroups* kGroupThreads, 1)
    attention_backward_warpgroup(const BackwardTensors<T> t, const AttentionShape shape) {
  using Form = GradGroups<T>;
  using Shared = WarpgroupShared<T, kBiased>;
  const AttentionTensors<T>& in = t.in;
  const Shared shared;
  if (threadIdx.x == 0) *shared.number = atomicAdd(t.turns.begun, 1U);
  __syncthreads();
  const bool shares = !kBiased && shape.group > 1, causal = !kBiased && shape.causal;
  const BlockPlace place = place_of(*shared.number, shape, t.turns.key_tiles, t.turns.goes_around, causal);
  const BlockRows<Form> block(shape, in.offsets, place);
  if (block.first >= block.length) return;
  const Steps steps(t.turns, causal, place.tile, block.length);

  const int group = group_number(), of_group = group * kGroupElements, first_key = block.first + group * kGroupTile;
  const bool is_idle = first_key >= block.length;
  const BlockRows<Form> of_keys = shares ? block.of_keys(shape) : block;
  using Copies = RowCopies<kGroupTile, Form, T>;
  Copies(of_keys, in.k, first_key, shape).next(shared.k + of_group, block.real(first_key));
  Copies(of_keys, in.v, first_key, shape).next(shared.v + of_group, block.real(first_key));
  using Biases = std::conditional_t<kBiased, BiasCopies<kGroupTile, kGroupTile, false, Form, T>, NoBiasCopies>;
  // The groups share the work. The copy objects are constructed again for each tile, because keeping them would take
  // registers that are needed elsewhere.
  const auto fetch = [&](int query, int stage) {
    if (group == 0) {
      Copies(block, in.q, query, shape).next(shared.q + stage * kGroupElements, block.real(query));
    } else if (group == 1) {
      Copies(block, t.doutput, query, shape).next(shared.doutput + stage * kGroupElements, block.real(query));
    } else {
      copy_query_sums(block, shared.log_sums + stage * kGroupTile, shared.deltas + stage * kGroupTile, t, shape, query);
    }
    if constexpr (kBiased) {
      // There are no keys after a sample's last tile.
      if (!is_idle) {
        Biases(block, in.biases, query, first_key, shape)
            .next(shared.biases + stage * Shared::kOfGroups + of_group, block.real(query));
      }
    }
    commit_copies();
  };
  const auto arrive = [] {
    wait_for_copies<0>();
    show_to_tensor_cores();
    __syncthreads();
  };
  const int count = steps.count();
  fetch(steps.query(0), 0);
  const DropoutSite site(shape, in, block);
  // A warp adds to the dq of 16 queries of a tile, in turn.
  const int of_warp = 16 * group_warp();
  const auto turn_of = [&](int query) {
    return t.turns.added + (block.sample * shape.heads + block.head) * t.turns.row_tiles + (query + of_warp) / 16;
  };
  const auto end_turn_of = [&](int step) {
    const int query = steps.query(step);
    if (block.lane == 0 && query + of_warp < block.length && !steps.is_last(step)) {
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
  if (is_idle) {  // it has no share in dq
    const GroupPairs none = {};
    store_pairs<T>(shared.scores + of_group, none);
    store_pairs<T>(shared.scores + Shared::kOfGroups + of_group, none);
  }
  arrive();
  if (count > 1) fetch(steps.query(1), 1);

  GroupSums dk_sums = {}, dv_sums = {};
#pragma unroll 1
  for (int step = 0, stage = 0; step < count; ++step, stage = (stage + 1) % Form::kStages) {
    const int first = steps.query(step);
    const T *const q = shared.q + stage * kGroupElements, *const doutput = shared.doutput + stage * kGroupElements;
    T* const scores = shared.scores + step % 2 * Shared::kOfGroups;
    // Ends the group's turn, if it had the previous tile, at a point where nothing waits for what was added.
    const auto end_turn_before = [&] {
      if (step > 0 && (stage + kGradGroups - 1) % kGradGroups == group) end_turn_of(step - 1);
    };
    GroupPairs p_pairs, ds_pairs;  // products read them until they are waited for
    if (is_idle) {
      end_turn_before();
    } else {
      GroupSums p, ds;
      if constexpr (kBiased) {
        start_with_biases<InTile::kColumns, T>(p, shared.biases + stage * Shared::kOfGroups + of_group);
      } else {
        start_without_biases(p, open, block, causal, first);
      }
      begin_products();
      start_product<T, InTile::kRows, InTile::kRows, true>(p, shared.k + of_group, q);
      commit_products();
      start_product<T, InTile::kRows, InTile::kRows, false>(ds, shared.v + of_group, doutput);
      commit_products();
      end_turn_before();
      const WarpBits bits(scores + 16 * block.warp * kGroupTile);
      if (shape.drops) bits.draw(site, first, block.warp_first());
      const OfQueries log_sums(shared.log_sums + stage * kGroupTile);
      wait_for_products<1>();
#pragma unroll
      for (int n = 0; n < kGroupBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[n][i] = exp2_fast(fmaf(p[n][i], shape.scale2, -log_sums.at[n].at[i % 2]));
        }
      }
      const OfQueries deltas(shared.deltas + stage * kGroupTile);
      const WarpBits::OfLane drawn = bits.of_lane();
      wait_for_products<0>();
#pragma unroll
      for (int n = 0; n < kGroupBlocks; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool kept = WarpBits::keeps(drawn, shape, 8 * n + i % 2, i / 2);
          const float probability = p[n][i], gradient = kept ? ds[n][i] : 0.0F;
          p[n][i] = kept ? probability : 0.0F;
          ds[n][i] = probability * fmaf(gradient, shape.keep_scale, -deltas.at[n].at[i % 2]);
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
      __syncwarp();  // no lane reads random bits any longer
      store_pairs<T>(scores + of_group, ds_pairs);
    }
    // After it, the next tile and all groups' scores have arrived, all products with the tile before this one are
    // complete, and its scores are no longer read.
    arrive();
    if (step + 2 < count) fetch(steps.query(step + 2), (stage + 2) % Form::kStages);
    if (stage != group) {
      wait_for_products<0>();
      continue;
    }
    GroupSums share;
    begin_products();
    start_product<T, InTile::kColumns, InTile::kColumns, false>(share, scores, +shared.k);
#pragma unroll
    for (int other = 1; other < kGradGroups; ++other) {
      const int at = other * kGroupElements;
      start_product<T, InTile::kColumns, InTile::kColumns, true>(share, scores + at, shared.k + at);
    }
    commit_products();
    const int query = first + of_warp;
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
  if ((count - 1) % kGradGroups == group) end_turn_of(count - 1);
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
         {.blocks = blocks,
          .threads = GradGroups<T>::kThreads,
          .shared_bytes = WarpgroupShared<T, kBiased>().pieces.bytes()},
         t, shape);
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
