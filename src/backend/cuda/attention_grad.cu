// attention_grad: one walk over the tiles of scores, which are computed again. A block keeps keys, sums their dk and dv
// in registers, and walks over the queries, adding its share to their dq in device memory. Blocks add to a query's dq
// in the order of their keys: each waits until the previous block has added, which has begun earlier, because blocks
// get their numbers when they begin. So the order of every sum is fixed (reference/attention.cpp has the formulas).
//
// Sums of the bias tables are kept in fixed point: sums of integers, unlike those of floats, do not depend on the
// order, so that lanes may add in any order and the result repeats bit for bit. Their unit comes from a bound of the
// summands: |ds| <= 2 keep_scale |do_i| max_j |v_j|, averaged with a query's probabilities.
#include <bit>
#include <type_traits>
#include <vector>

#include "backend/cuda/attention_backward.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
struct FixedPoint;
template <>
struct FixedPoint<float> {
  using Sum = unsigned long long;          // two's complement
  static constexpr float kMost = 0x1p62F;  // the largest sum
  __device__ static Sum from(float x) { return static_cast<Sum>(static_cast<long long>(x)); }
  __device__ static double value(Sum x) { return static_cast<double>(static_cast<long long>(x)); }
};
struct HalfFixedPoint {
  using Sum = unsigned;
  static constexpr float kMost = 0x1p30F;
  __device__ static Sum from(float x) { return static_cast<Sum>(static_cast<int>(rintf(x))); }
  __device__ static double value(Sum x) { return static_cast<double>(static_cast<int>(x)); }
};
template <>
struct FixedPoint<Bf16> : HalfFixedPoint {};
template <>
struct FixedPoint<F16> : HalfFixedPoint {};

// The sizes of the gradient's walk, besides those of AttentionTiles.
template <typename T, int kWidth, bool kExact>
struct GradTiles : AttentionTiles<T, kWidth, kExact> {
  using Base = AttentionTiles<T, kWidth, kExact>;
  // A tile is processed in parts of this many rows, because there are no registers for more.
  static constexpr int kPart = !Base::kHalf ? Base::kTile : kWidth == 32 ? 32 : 16, kPartBlocks = kPart / 8;
  // Depends on the registers and the shared memory of a multiprocessor. Three blocks with one tile each are faster than
  // two that also copy the next tile.
  PLIMSOLL_HOST_DEVICE static constexpr int blocks_at_once(bool of_tables) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return Base::kHalf ? 2 : 4;
#else
    return !Base::kHalf ? 4 : kWidth == 64 && !of_tables ? 3 : 2;
#endif
  }
  PLIMSOLL_HOST_DEVICE static constexpr int stages(int architecture) {
    return Base::kHalf && kWidth != 64 && architecture >= 90 ? 2 : 1;
  }
  // The number of copies of a block's sums by bin: with one copy for each lane of a warp, no lane waits for another.
  PLIMSOLL_HOST_DEVICE static constexpr int copies(int architecture) {
    return !Base::kHalf || architecture < 80 ? 8 : architecture < 90 ? 16 : 32;
  }
  // A part's product for dq is divided among the warps: 16 queries and some columns each.
  static constexpr int kGroups = kPart / 16, kColumnParts = Base::kWarps / kGroups;
  static constexpr int kPartColumns = kWidth / kColumnParts, kDqBlocks = kPartColumns / 8;
  static_assert(kGroups * kColumnParts == Base::kWarps);
  static constexpr int kWarpsAtOnce = kExact && kWidth <= 64 ? Base::kWarps : 1;  // others lack the registers
  // A warp's gradients of scores, [16 keys][queries of a part], as they are passed to the other warps; before that, the
  // space holds the random bits of its dropout.
  static constexpr int kExchangeLeading = leading<T>(kPart);
  using Bits = DropoutBits<kPart, 16>;
  static constexpr int kExchangeWords = 16 * kExchangeLeading * static_cast<int>(sizeof(T)) / 4;
  static constexpr int kWarpWords = kExchangeWords > Bits::kWords ? kExchangeWords : Bits::kWords;
  // With two buffers for it, warps can write those of one part while others still read those of the previous part.
  template <bool kOfTables>
  PLIMSOLL_HOST_DEVICE static constexpr int exchanges(int architecture) {
    return kPart < Base::kTile && architecture >= 80 && !kOfTables ? 2 : 1;
  }
};

template <typename T, int kWidth, bool kExact, bool kBiased, bool kOfTables>
struct BackwardShared {
  using Form = GradTiles<T, kWidth, kExact>;
  using Sum = typename FixedPoint<T>::Sum;
  static constexpr int kComing = Form::kTile * Form::kLeading, kBiases = Form::kTile * leading<T>(Form::kRows);
  SharedPieces pieces;
  SharedPiece<T> k, v, q, doutput, biases;  // the last three of each stage
  SharedPiece<RowFacts> rows, columns;
  SharedPiece<QueryFacts> queries;
  SharedPiece<float> staging, bound;
  SharedPiece<unsigned> exchange;
  SharedPiece<std::uint8_t> bins;
  SharedPiece<Sum> sums;

  PLIMSOLL_HOST_DEVICE BackwardShared(const AttentionShape& shape, int architecture) {
    const int stages = Form::stages(architecture);
    k = pieces.take<T>(Form::kRows * Form::kLeading);
    v = pieces.take<T>(Form::kRows * Form::kLeading);
    q = pieces.take<T>(stages * kComing);
    doutput = pieces.take<T>(stages * kComing);
    if (kBiased) biases = pieces.take<T>(stages * kBiases);
    queries = pieces.take<QueryFacts>(stages * Form::kTile);
    staging = pieces.take<float>(Form::kStaging * Form::kWarps);
    exchange =
        pieces.take<unsigned>(Form::template exchanges<kOfTables>(architecture) * Form::kWarpWords * Form::kWarps);
    if (!kOfTables) return;
    rows = pieces.take<RowFacts>(Form::kRows);
    columns = pieces.take<RowFacts>(stages * Form::kTile);
    bound = pieces.take<float>(Form::kWarps + 1);
    bins = pieces.take<std::uint8_t>(shape.distances());
    sums = pieces.take<Sum>(shape.kept_bins() * Form::copies(architecture));
  }
};

// Returns the largest of the values that the threads of a block hold, to all of them. `shared` has one float per warp
// and one more.
template <int kWarps>
__device__ float block_max(float x, float* shared) {
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = shared[0];
  for (int warp = 1; warp < kWarps; ++warp) x = fmaxf(x, shared[warp]);
  return x;
}

// The sums of ds by the bins of the three tables, over a block's keys: lanes add to copies of them.
template <typename T, int kWidth, bool kExact>
class TableSums {
 public:
  using Form = GradTiles<T, kWidth, kExact>;
  using Shared = BackwardShared<T, kWidth, kExact, true, true>;
  using Fixed = FixedPoint<T>;
  using Sum = typename Fixed::Sum;

  __device__ TableSums(const Shared& shared, const RowSums& norms, const AttentionShape& shape,
                       const BlockRows<Form>& block)
      : shape_(shape), shared_(shared), queries_(static_cast<float>(block.length)) {
    float dout_norm = 0, v_norm = 0;
    for (int row = static_cast<int>(threadIdx.x); row < block.length; row += Form::kThreads) {
      const std::int64_t at = (block.begin() + row) * shape.heads + block.head;
      dout_norm = fmaxf(dout_norm, norms.dout_norm[at]);
      if (row >= block.first && row < block.first + Form::kRows) v_norm = fmaxf(v_norm, norms.v_norm[at]);
    }
    // It is infinite or NaN if a value is; the sums' unit then makes the sums NaN.
    const float bound = block_max<Form::kWarps>(dout_norm, shared.bound) *
                        block_max<Form::kWarps>(v_norm, shared.bound) * shape.keep_scale;
    units_ = bound > 0 ? Fixed::kMost / (2 * queries_) / bound : 0.0F;
    if (threadIdx.x == 0) shared.bound[Form::kWarps] = bound;
    const int all = shape.kept_bins() * copies();
    for (int i = static_cast<int>(threadIdx.x); i < all; i += Form::kThreads) shared.sums[i] = 0;
    number_bins(+shared.bins, shape);
    const int copy = block.lane / (static_cast<int>(kWarp) / copies());
    for (int t = 0; t < kTables; ++t) {
      // An absent table sums into the bin after all others, which is never read: a branch would cost more.
      const int first = shape.edges[t].bins == 0 ? shape.all_bins() : shape.edges[t].first;
      lane_sums_[t] = shared.sums.begin + (first * copies() + copy) * static_cast<int>(sizeof(Sum));
    }
  }

  // Call it once the rows' facts have arrived.
  __device__ void begin(const BlockRows<Form>& block) {
    for (int i = 0; i < 2; ++i) {
      for (int t = 0; t < kTables; ++t) {
        const int coordinate = shared_.rows[16 * block.warp + block.lane / 4 + 8 * i].coordinates[t];
        of_key_[i][t] = distance_of_key(shape_.edges[t], coordinate);
      }
    }
  }

  // Adds the contribution of the lane's key i and a query.
  __device__ void add(float ds, int i, const RowFacts& query) {
    const Sum value = Fixed::from(ds * units_);
#pragma unroll
    for (int t = 0; t < kTables; ++t) {
      const int bin = shared_.bins[distance_number(shape_, t, of_key_[i][t], query.coordinates[t])];
      atomicAdd(+SharedPiece<Sum>{lane_sums_[t] + bin * copies() * static_cast<int>(sizeof(Sum))}, value);
    }
  }

  // Writes partial[head * bins + bin][slot]. All threads of the block call it.
  __device__ void write(float* partial, int head, std::int64_t slot, std::int64_t slots) {
    __syncthreads();
    const float bound = shared_.bound[Form::kWarps];
    const double unit = bound > 0 || bound != bound ? double{bound} * double{2 * queries_} / double{Fixed::kMost} : 0.0;
    const int bins = shape_.all_bins();
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += Form::kThreads) {
      double sum = 0;
      for (int copy = 0; copy < copies(); ++copy) sum += Fixed::value(shared_.sums[bin * copies() + copy]);
      partial[(static_cast<std::int64_t>(head) * bins + bin) * slots + slot] = static_cast<float>(sum * unit);
    }
  }

 private:
  __device__ static int copies() { return Form::copies(device_architecture()); }

  const AttentionShape& shape_;
  const Shared& shared_;
  float queries_, units_;
  int lane_sums_[kTables] = {};  // where the lane's copy of a table's sums begins in shared memory
  int of_key_[2][kTables] = {};  // of the lane's keys
};

struct NoTableSums {};

// Wide heads have registers for the sums of only one of dk and dv, and take a launch for each: the one with kKeys
// computes dq and the tables' gradients, too.
template <typename T, int kWidth, bool kExact, bool kBiased, bool kKeys, bool kValues, bool kOfTables>
__global__ void __launch_bounds__(GradTiles<T, kWidth, kExact>::kThreads,
                                  GradTiles<T, kWidth, kExact>::blocks_at_once(kOfTables))
    attention_backward(const BackwardTensors<T> t, const AttentionShape shape) {
  using Form = GradTiles<T, kWidth, kExact>;
  using Shared = BackwardShared<T, kWidth, kExact, kBiased, kOfTables>;
  static_assert(kKeys || !kOfTables);
  constexpr int kTile = Form::kTile;
  // True if there are registers for what other blocks have added to dq, besides a part's gradients of scores.
  constexpr bool kLoadsEarly = kExact && kWidth <= 64 && !kOfTables;
  const AttentionTensors<T>& in = t.in;
  const unsigned number = kKeys ? block_number(t.turns.begun) : blockIdx.x;
  const BlockPlace place = place_of(number, shape, t.turns.key_tiles);
  const unsigned key_tile = place.tile;
  const BlockRows<Form> block(shape, in.offsets, place);
  if (block.first >= block.length) return;
  const int stages = Form::stages(device_architecture());
  const Shared shared(shape, device_architecture());
  float* const staging = shared.staging + block.warp * Form::kStaging;

  // With biases, heads neither share keys nor are causal; saying so at compile time saves registers.
  const bool shares = !kBiased && shape.group > 1, causal = !kBiased && shape.causal;
  const BlockRows<Form> of_keys = shares ? block.of_keys(shape) : block;
  RowCopies<Form::kRows, Form, T>(of_keys, in.k, block.first, shape).next(shared.k, block.real(block.first));
  RowCopies<Form::kRows, Form, T>(of_keys, in.v, block.first, shape).next(shared.v, block.real(block.first));
  if constexpr (kOfTables) copy_facts<Form::kRows>(block, shared.rows, in.coordinates, block.first);
  // If causal, earlier queries do not see the block's keys; a block's first row is also a tile's first row.
  static_assert(Form::kRows % kTile == 0);
  const int begin = causal ? block.first : 0;
  RowCopies<kTile, Form, T> q_copies(block, in.q, begin, shape), doutput_copies(block, t.doutput, begin, shape);
  using Biases = std::conditional_t<kBiased, BiasCopies<kTile, Form::kRows, false, Form, T>, NoBiasCopies>;
  Biases biases(block, in.biases, 0, block.first, shape);
  const auto fetch = [&](int query, int stage) {
    q_copies.next(shared.q + stage * Shared::kComing, block.real(query));
    doutput_copies.next(shared.doutput + stage * Shared::kComing, block.real(query));
    if constexpr (kBiased) biases.next(shared.biases + stage * Shared::kBiases, block.real(query));
    if constexpr (kOfTables) copy_facts<kTile>(block, shared.columns + stage * kTile, in.coordinates, query);
    copy_query_facts<kTile>(block, shared.queries + stage * kTile, t, shape, query);
    commit_copies();
  };
  fetch(begin, 0);
  std::conditional_t<kOfTables, TableSums<T, kWidth, kExact>, NoTableSums> table_sums = [&] {
    if constexpr (kOfTables) {
      return TableSums<T, kWidth, kExact>(shared, t.sums, shape, block);
    } else {
      return NoTableSums{};
    }
  }();
  const DropoutSite site(shape, in, block);
  const int exchanges = Form::template exchanges<kOfTables>(device_architecture());
  const bool is_last = block.first + Form::kRows >= block.length;
  const auto turn_of = [&](int query) {
    return t.turns.added + (block.sample * shape.heads + block.head) * t.turns.row_tiles + query / 16;
  };
  bool open[2];  // the lane's two keys
  for (int i = 0; i < 2; ++i) {
    const int key = block.warp_first() + block.lane / 4 + 8 * i;
    open[i] = key < block.length && in.key_mask[block.begin() + key] != 0;
  }

  float dk_sums[Form::kOutBlocks][4] = {}, dv_sums[Form::kOutBlocks][4] = {};
  // The warp's queries among a part's, and its columns of their dq.
  const auto group = [&] { return block.warp % Form::kGroups * 16; };
  const auto column_part = [&] { return block.warp / Form::kGroups; };
  const auto sums_of = [&](int query) {
    return lane_sums<Form::kDqBlocks>(queries_of(block, t.dq_sums, query, shape), column_part());
  };
  // One thread waits for the previous block, another one publishes what this block has added: both take long.
  const auto wait = [&](int first) {
    if (key_tile > 0 && threadIdx.x == kWarp) wait_for_turn(turn_of(first), key_tile);
  };
  const auto arrive = [&](int first) {
    if constexpr (kKeys && kLoadsEarly) wait(first);
  };
  const auto leave = [&](int first) {
    if (kKeys && !is_last && threadIdx.x == 0) end_turn(turn_of(first), key_tile + 1);
  };
  const auto compute = [&](int first, int stage) {
    if constexpr (kOfTables) {
      if (first == 0) table_sums.begin(block);
    }
#pragma unroll 1
    for (int part = 0; part < kTile && block.real(first + part) > 0; part += Form::kPart) {
      const int row = stage * kTile + part;
      const T *const q = shared.q + row * Form::kLeading, *const doutput = shared.doutput + row * Form::kLeading;
      const int to_exchange = exchanges == 1 ? 0 : part / Form::kPart % 2 * Form::kWarps * Form::kWarpWords;
      unsigned* const exchange = shared.exchange + to_exchange + block.warp * Form::kWarpWords;
      const typename Form::Bits bits{exchange};
      if (shape.drops) bits.draw(site, first + part, block.warp_first());
      float p[Form::kPartBlocks][4], ds[Form::kPartBlocks][4] = {};
      if constexpr (kBiased) {
        constexpr int kLeading = leading<T>(Form::kRows);
        start_scores<true, kLeading>(p, shared.biases + row * kLeading + 16 * block.warp);
      } else {
        start_without_biases(p, open, block, causal, first + part);
      }
      add_product_transposed<kWidth>(p, shared.k + 16 * block.warp * Form::kLeading, q);
      if constexpr (kKeys) add_product_transposed<kWidth>(ds, shared.v + 16 * block.warp * Form::kLeading, doutput);
      [[maybe_unused]] Pack<float, 4> before[kLoadsEarly ? Form::kDqBlocks : 1] = {};
      if constexpr (kKeys && kLoadsEarly) {
        const int query = first + part + group();
        if (key_tile > 0 && query < block.length) load_sums(before, sums_of(query));
      }
      const auto* const drawn = reinterpret_cast<const std::uint16_t*>(exchange) +
                                block.lane % 4 * 2 * 2 * Form::Bits::kStride + block.lane / 4;
#pragma unroll
      for (int n = 0; n < Form::kPartBlocks; ++n) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int at = 8 * n + block.lane % 4 * 2 + side;
          const QueryFacts facts = (shared.queries + row)[at];
#pragma unroll
          for (int key = 0; key < 2; ++key) {
            const int i = 2 * key + side;
            float exponent = fmaf(p[n][i], shape.scale2, -facts.log_sum_exp2);
            // Halves are too coarse for this correction to matter.
            if constexpr (!Form::kHalf) exponent -= facts.log_sum_rest2;
            const float probability = exp2_fast(exponent);
            const bool kept = Form::Bits::keeps(drawn, shape, 8 * n + side, 8 * key);
            p[n][i] = kept ? probability : 0.0F;
            const float gradient = fmaf(ds[n][i], shape.keep_scale, -facts.delta);
            ds[n][i] = probability * (kept ? gradient : -facts.delta);
          }
        }
      }
      if constexpr (kOfTables) {
#pragma unroll
        for (int n = 0; n < Form::kPartBlocks; ++n) {
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const RowFacts query = (shared.columns + row)[8 * n + block.lane % 4 * 2 + side];
#pragma unroll
            for (int key = 0; key < 2; ++key) table_sums.add(ds[n][2 * key + side], key, query);
          }
        }
      }
      if constexpr (kValues) add_product(dv_sums, p, doutput, staging);
      if constexpr (kKeys) {
        add_product(dk_sums, ds, q, staging);
        store_scores<Form::kExchangeLeading>(reinterpret_cast<T*>(exchange), ds);
        if constexpr (!kLoadsEarly) {
          if (part == 0) wait(first);
        }
        __syncthreads();
        float share[Form::kDqBlocks][4] = {};
#pragma unroll Form::kWarpsAtOnce
        for (int warp = 0; warp < Form::kWarps; ++warp) {
          const SharedPiece<T> scores{shared.exchange.begin + (to_exchange + warp * Form::kWarpWords) * 4};
          add_transposed_product<Form::kExchangeLeading, Form::kLeading>(
              share, scores + group(), shared.k + 16 * warp * Form::kLeading + column_part() * Form::kPartColumns);
        }
        const int query = first + part + group();
        if (query < block.length) {
          auto* const sums = sums_of(query);
          if constexpr (kLoadsEarly) {
            store_sums_with(share, before, sums);
          } else {
            constexpr int kAtOnce = (Form::kDqBlocks + 1) / 2;
#pragma unroll
            for (int n = 0; n < Form::kDqBlocks; n += kAtOnce) {
              Pack<float, 4> late[kAtOnce] = {};
              if (key_tile > 0) load_sums(late, sums, n);
              store_sums_with(share, late, sums, n);
            }
          }
        }
        if (exchanges == 1) __syncthreads();
      }
    }
  };
  static_assert(Form::kWarps > 1);
  walk<Form>(begin, block.length, stages, fetch, compute, arrive, leave);
  store_keys<kKeys, kValues>(dk_sums, dv_sums, open, block, shares, t, shape);
  if constexpr (kKeys) {
    if (causal) {
      const int end = is_last ? block.length : block.first + Form::kRows;
      write_queries(block, block.first, end, t, shape);
    } else if (is_last) {
      write_queries(block, 0, block.length, t, shape);
    }
  }
  if constexpr (kOfTables) {
    table_sums.write(t.partial, block.head, block.begin() / Form::kRows + block.sample + key_tile, t.slots);
  }
}

struct TableOutputs {
  float* at[kTables];  // [heads][bins]
};

// One warp per bin of a head: adds up the partial sums of its slots in a fixed order.
__global__ void attention_table_sums(const float* partial, std::int64_t slots, const AttentionShape shape,
                                     TableOutputs to) {
  const int bins = shape.all_bins();
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (item >= static_cast<std::int64_t>(shape.heads) * bins) return;
  double sum = 0;
  for (std::int64_t slot = threadIdx.x % kWarp; slot < slots; slot += kWarp) sum += partial[item * slots + slot];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp != 0) return;
  const int head = static_cast<int>(item / bins), bin = static_cast<int>(item % bins);
  for (int t = kTables - 1; t >= 0; --t) {
    const BucketEdges& edges = shape.edges[t];
    if (edges.bins == 0 || bin < edges.first) continue;
    to.at[t][head * edges.bins + bin - edges.first] = static_cast<float>(sum * shape.scale);
    return;
  }
}

template <typename T, int kWidth, bool kExact, bool kBiased, bool kOfTables>
std::unique_ptr<Kernel> make_backward(const Context& context, const AttentionShape& shape,
                                      const AttentionGradScratch& scratch, const Graph& graph, const Node& node) {
  using Form = GradTiles<T, kWidth, kExact>;
  constexpr bool kAtOnce = kWidth <= 64, kForGroups = kForWarpgroups<T, kWidth, kExact> && !kOfTables;
  const int architecture = context.architecture();
  // This depends on what the plan knows, not on the batch, because it determines the order of sums. For short samples,
  // two of the three groups would have no keys.
  const bool by_groups = kForGroups && has_warpgroups(context) && shape.longest > Form::kRows;
  const std::int64_t rows = by_groups ? kGradRows : Form::kRows;  // of a block
  const bool goes_around = by_groups && !shape.causal && shape.longest <= context.gpu().processors() * rows;
  const std::size_t keys_bytes =
      BackwardShared<T, kWidth, kExact, kBiased, kOfTables>(shape, architecture).pieces.bytes();
  const std::size_t values_bytes =
      BackwardShared<T, kWidth, kExact, kBiased, false>(shape, architecture).pieces.bytes();
  if constexpr (kForGroups) {
    if (by_groups) prepare_warpgroup_backward<T, kBiased>(context);
  }
  if (!by_groups)
    allow_shared_memory(context, attention_backward<T, kWidth, kExact, kBiased, true, kAtOnce, kOfTables>, keys_bytes);
  if constexpr (!kAtOnce) {
    allow_shared_memory(context, attention_backward<T, kWidth, kExact, kBiased, false, true, false>, values_bytes);
  }
  prepare_biases<T>(context, shape);
  const std::int64_t n = graph.type(node.inputs[1]).shape[0];
  const PartialPlace place(graph, node);
  const std::optional<SummedOutputs> sums = summed_outputs(node);
  return make_launch(scratch.bytes, [=, &context](const KernelArguments& a) {
    const std::int64_t longest = a.bound(shape.longest), row_sums = scratch.row_sums;
    auto* const floats = reinterpret_cast<float*>(a.scratch.data());
    float* const zeros = floats + (kOfTables ? 5 : 3) * row_sums;
    auto* const counts = reinterpret_cast<unsigned*>(zeros);
    const auto key_tiles = static_cast<unsigned>((longest + rows - 1) / rows);
    BackwardTensors<T> t{
        .in = AttentionTensors<T>(a, shape.form),
        .doutput = input<T>(a, 0),
        .sums = {floats + 2 * row_sums, floats, kOfTables ? floats + 3 * row_sums : nullptr,
                 kOfTables ? floats + 4 * row_sums : nullptr},
        .turns = {counts, counts + 1, static_cast<int>((shape.longest + 15) / 16), key_tiles, goes_around},
        .dq_sums = floats + scratch.dq_begin,
        .dq = output<T>(a, 0),
        .dk = output<T>(a, 1),
        .dv = output<T>(a, 2),
        .shared_dk = shape.group > 1 ? floats + scratch.shared_begin : nullptr,
        .shared_dv = shape.group > 1 ? floats + scratch.shared_begin + scratch.shared_sums / 2 : nullptr,
        .partial = zeros + scratch.turns,
        .slots = scratch.slots,
        .tile_sums = {}};
    if (place.is_output()) {
      t.tile_sums = {output<float>(a, sums->first), scratch.tiles};
    } else if (sums) {
      t.tile_sums = {floats + scratch.tile_sums_begin, 0};
    }
    constexpr unsigned kSumThreads = 256;
    for_pack<T>(shape.head_size, [&](auto pack) {
      const int lanes = static_cast<int>(
          std::bit_ceil(std::min(static_cast<unsigned>((shape.head_size + pack() - 1) / pack()), kWarp)));
      const std::int64_t warps = (a.bound(n) * shape.heads * lanes + kWarp - 1) / kWarp;
      launch(context.stream(), attention_row_sums<pack(), T>,
             {.blocks = std::max(1U, blocks_for(warps, kSumThreads / kWarp)), .threads = kSumThreads}, t.doutput,
             input<T>(a, 4), t.in.v, input<float>(a, 5), t.in.offsets, shape, lanes, t.sums, counts,
             scratch.turns + scratch.partials, Outputs<T>{t.dq, t.dk, t.dv, rows_of(a, a.outputs[0]).capacity},
             t.tile_sums);
    });
    make_biases(context, t.in, shape, longest, a.scratch.data() + scratch.bias_begin);
    const auto heads = static_cast<unsigned>(shape.heads * shape.samples);
    if constexpr (kForGroups) {
      if (by_groups) start_warpgroup_backward<T, kBiased>(context, key_tiles * heads, t, shape);
    }
    const Launch tiles{.blocks = key_tiles * heads, .threads = Form::kThreads, .shared_bytes = keys_bytes};
    if (!by_groups)
      launch(context.stream(), attention_backward<T, kWidth, kExact, kBiased, true, kAtOnce, kOfTables>, tiles, t,
             shape);
    if constexpr (!kAtOnce) {
      Launch values = tiles;
      values.shared_bytes = values_bytes;
      launch(context.stream(), attention_backward<T, kWidth, kExact, kBiased, false, true, false>, values, t, shape);
    }
    if (shape.group > 1) {
      launch(context.stream(), attention_shared_sums<T>,
             {.blocks = std::max(1U, blocks_for(a.bound(n) * shape.key_stride(), kSumThreads)), .threads = kSumThreads},
             t.shared_dk, t.shared_dv, t.in.offsets, shape, t.dk, t.dv);
    }
    if constexpr (kOfTables) {
      TableOutputs to{};
      for (std::size_t table = 0; table < AttentionForm::kBiases; ++table) {
        if (shape.form.has_bias[table]) to.at[table] = output<float>(a, shape.form.table_gradient(table));
      }
      launch(context.stream(), attention_table_sums,
             {.blocks = (static_cast<unsigned>(shape.heads * shape.all_bins()) + kSumThreads / kWarp - 1) /
                        (kSumThreads / kWarp),
              .threads = kSumThreads},
             t.partial, t.slots, shape, to);
    }
    if (!sums || place.is_output()) return;
    launch(context.stream(), attention_column_sums<float>,
           {.blocks = column_blocks(3 * shape.stride()), .threads = kColumnThreads}, t.tile_sums, t.in.offsets, shape,
           SumOutputs<float>{output<float>(a, sums->first), output<float>(a, sums->first + 1),
                             output<float>(a, sums->first + 2)});
  });
}

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const Context& context, const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node);
  const AttentionGradScratch scratch(graph, node, shape);
  const bool table_gradients = std::get<AttentionAttributes>(node.attributes).table_gradients;
  const TensorType& q = graph.type(node.inputs[1]);
  return for_floating(q.dtype, [&]<typename T>(T) {
    return for_head(shape.head_size, [&]<int kWidth, bool kExact>(HeadForm<kWidth, kExact>) {
      if (shape.bias_stride == 0)
        return make_backward<T, kWidth, kExact, false, false>(context, shape, scratch, graph, node);
      return table_gradients ? make_backward<T, kWidth, kExact, true, true>(context, shape, scratch, graph, node)
                             : make_backward<T, kWidth, kExact, true, false>(context, shape, scratch, graph, node);
    });
  });
}

}  // namespace plimsoll::cuda
