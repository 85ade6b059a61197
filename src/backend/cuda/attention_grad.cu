// attention_grad: two walks over the tiles of scores, which compute them again: one whose blocks keep keys, for dk and
// dv, one whose blocks keep queries, for dq and the gradients of the bias tables. So every sum has one owner and one
// order, and nothing is added to by several blocks (reference/attention.cpp has the formulas).
//
// Sums of the bias tables are kept in fixed point: integers, unlike floats, add up to the same in any order, so that
// lanes may add where they like and the result repeats bit for bit. Their unit comes from a bound of what is added:
// |ds| <= 2 keep_scale |do_i| max_j |v_j|, of which a query's probabilities take a mean.
#include <type_traits>

#include "backend/cuda/attention.h"

namespace plimsoll::cuda {
namespace {

constexpr int kCopies = 8;  // of a block's sums, one for each row of a warp's lanes, which meet less often for it

template <typename T>
struct FixedPoint;
template <>
struct FixedPoint<float> {
  using Sum = unsigned long long;           // two's complement
  static constexpr float kUnits = 0x1p58F;  // of keep_scale times the bound
  __device__ static Sum from(float x) { return static_cast<Sum>(static_cast<long long>(x)); }
  __device__ static double value(Sum x) { return static_cast<double>(static_cast<long long>(x)); }
};
struct HalfFixedPoint {
  using Sum = unsigned;
  static constexpr float kUnits = 0x1p26F;
  __device__ static Sum from(float x) { return static_cast<Sum>(static_cast<int>(rintf(x))); }
  __device__ static double value(Sum x) { return static_cast<double>(static_cast<int>(x)); }
};
template <>
struct FixedPoint<Bf16> : HalfFixedPoint {};
template <>
struct FixedPoint<F16> : HalfFixedPoint {};

// The sums that the first kernel leaves for the others, [n][heads] each.
struct RowSums {
  float* delta;      // output . doutput
  float* log_sums2;  // pairs: log_sum_exp in units of ln 2
  float* dout_norm;  // Euclidean norms, infinite where a value is not finite; nullptr without table gradients
  float* v_norm;
};

// A lane's sums of one of its rows become 0.
template <int kOutBlocks>
__device__ inline void clear_row(int row, float (&a)[kOutBlocks][4], float (&b)[kOutBlocks][4]) {
#pragma unroll
  for (int n = 0; n < kOutBlocks; ++n) a[n][2 * row] = a[n][2 * row + 1] = b[n][2 * row] = b[n][2 * row + 1] = 0;
}

__device__ inline float norm_of(float squares) { return squares <= 3.4e38F ? sqrtf(squares) : INFINITY; }

// A warp a row of a head.
template <typename T>
__global__ void attention_row_sums(const T* doutput, const T* output, const T* v, const float* log_sum_exp,
                                   const std::int32_t* offsets, const AttentionShape shape, RowSums to) {
  const std::int64_t items = std::int64_t{offsets[shape.samples]} * shape.heads;
  const unsigned warps = blockDim.x / kWarp;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / kWarp; item < items;
       item += static_cast<std::int64_t>(gridDim.x) * warps) {
    const std::int64_t at = item * shape.head_size;  // rows of heads lie one after the other
    float delta = 0, dout_squares = 0, v_squares = 0;
    for (int c = static_cast<int>(threadIdx.x % kWarp); c < shape.head_size; c += static_cast<int>(kWarp)) {
      const float d = to_float(doutput[at + c]);
      delta += d * to_float(output[at + c]);
      if (to.dout_norm != nullptr) {
        const float value = to_float(v[at + c]);
        dout_squares += d * d;
        v_squares += value * value;
      }
    }
    delta = warp_sum(delta);
    if (to.dout_norm != nullptr) {
      dout_squares = warp_sum(dout_squares);
      v_squares = warp_sum(v_squares);
    }
    if (threadIdx.x % kWarp != 0) continue;
    to.delta[item] = delta;
    store_parts((double{log_sum_exp[2 * item]} + double{log_sum_exp[2 * item + 1]}) * kLog2E, to.log_sums2 + 2 * item);
    if (to.dout_norm != nullptr) {
      to.dout_norm[item] = norm_of(dout_squares);
      to.v_norm[item] = norm_of(v_squares);
    }
  }
}

template <typename T>
struct BackwardTensors {
  AttentionTensors<T> in;
  const T* doutput;
  RowSums sums;
};

// Shared memory of both walks: what stays, `a` and `b`, and what comes by, `x` and `y`.
template <typename T, int kWidth>
struct BackwardShared {
  using Form = AttentionTiles<T, kWidth>;
  using Sum = typename FixedPoint<T>::Sum;
  using KeyBits = DropoutBits<Form::kPart, 16>;    // of the walk over queries
  using QueryBits = DropoutBits<16, Form::kPart>;  // of that over keys
  static constexpr int kComing = Form::kTile * Form::kLeading;
  SharedPieces pieces;
  SharedPiece<T> a, b, x, y;
  SharedPiece<RowFacts> rows, columns;
  SharedPiece<QueryFacts> queries;
  SharedPiece<float> staging, bound, distances;
  SharedPiece<unsigned> bits;
  SharedPiece<std::uint16_t> places;
  SharedPiece<Sum> sums;

  // `queries_stay`: of the walk over keys; `tables`: with sums for their gradients.
  PLIMSOLL_HOST_DEVICE BackwardShared(const AttentionShape& shape, int stages, bool queries_stay, bool tables) {
    a = pieces.take<T>(Form::kRows * Form::kLeading);
    b = pieces.take<T>(Form::kRows * Form::kLeading);
    x = pieces.take<T>(stages * kComing);
    y = pieces.take<T>(stages * kComing);
    rows = pieces.take<RowFacts>(Form::kRows);
    columns = pieces.take<RowFacts>(stages * Form::kTile);
    queries = pieces.take<QueryFacts>(queries_stay ? Form::kRows : stages * Form::kTile);
    staging = pieces.take<float>(Form::kStaging * Form::kWarps);
    bits = pieces.take<unsigned>((queries_stay ? QueryBits::kWords : KeyBits::kWords) * Form::kWarps);
    distances = pieces.take<float>(shape.distances());
    if (!tables) return;
    bound = pieces.take<float>(Form::kWarps + 1);
    places = pieces.take<std::uint16_t>(shape.distances());
    sums = pieces.take<Sum>(shape.all_bins() * kCopies);
  }
};

template <int kRows, typename Form, typename T>
__device__ void copy_query_facts(const BlockRows<Form>& block, QueryFacts* to, const BackwardTensors<T>& t,
                                 const AttentionShape& shape, std::int64_t first) {
  for (int row = static_cast<int>(threadIdx.x); row < kRows; row += Form::kThreads) {
    const bool exists = row < block.real(first);
    const std::int64_t at = (first + (exists ? row : 0)) * shape.heads + block.head;
    copy_async<8>(&to[row].log_sum_exp2, t.sums.log_sums2 + 2 * at, exists);
    copy_async<4>(&to[row].delta, t.sums.delta + at, exists);
  }
}

// A block keeps keys and walks over queries. Wide heads have registers for the sums of one of dk and dv alone, and take
// a launch for each.
template <typename T, int kWidth, bool kKeys, bool kValues>
__global__ void __launch_bounds__(AttentionTiles<T, kWidth>::kThreads, AttentionTiles<T, kWidth>::kBlocksAtOnce)
    attention_key_value_grad(const BackwardTensors<T> t, const AttentionShape shape, T* dk, T* dv) {
  using Form = AttentionTiles<T, kWidth>;
  using Shared = BackwardShared<T, kWidth>;
  constexpr int kTile = Form::kTile;
  const AttentionTensors<T>& in = t.in;
  const BlockRows<Form> block(shape, in.offsets);
  if (block.first >= block.end) return;
  const Shared shared(shape, Form::kStages, false, false);
  float* const staging = shared.staging + block.warp * Form::kStaging;

  copy_rows<Form::kRows>(block, +shared.a, in.k, block.first, shape);
  copy_rows<Form::kRows>(block, +shared.b, in.v, block.first, shape);
  copy_facts<Form::kRows>(block, shared.rows, in, block.first);
  const auto fetch = [&](std::int64_t query, int stage) {
    copy_rows<kTile>(block, shared.x + stage * Shared::kComing, in.q, query, shape);
    copy_rows<kTile>(block, shared.y + stage * Shared::kComing, t.doutput, query, shape);
    copy_facts<kTile>(block, shared.columns + stage * kTile, in, query);
    copy_query_facts<kTile>(block, shared.queries + stage * kTile, t, shape, query);
    commit_copies();
  };
  fetch(block.begin, 0);
  const DistanceTables tables = make_distance_tables<Form::kThreads>(shared.distances, shape, in, block.head);
  const DropoutSite site(shape, in, block);
  const typename Shared::KeyBits bits{shared.bits + block.warp * Shared::KeyBits::kWords};

  float dk_sums[Form::kOutBlocks][4] = {}, dv_sums[Form::kOutBlocks][4] = {};
  LaneRows<true> rows;
  walk(block, fetch, [&](std::int64_t first, int stage) {
    if (first == block.begin) rows = LaneRows<true>(tables, shared.rows);
#pragma unroll 1
    for (int part = stage * kTile; part < (stage + 1) * kTile; part += Form::kPart) {
      const std::int64_t query = first + part - stage * kTile, real = block.real(query);
      if (real <= 0) break;
      const T *const q = shared.x + part * Form::kLeading, *const doutput = shared.y + part * Form::kLeading;
      if (shape.drops) bits.draw(site, query - block.begin, block.warp_first() - block.begin);
      float p[Form::kPartBlocks][4] = {}, ds[Form::kPartBlocks][4] = {};
      add_product_transposed<kWidth>(p, shared.a + 16 * block.warp * Form::kLeading, q);
      if constexpr (kKeys) add_product_transposed<kWidth>(ds, shared.b + 16 * block.warp * Form::kLeading, doutput);
#pragma unroll
      for (int n = 0; n < Form::kPartBlocks; ++n) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int at = 8 * n + block.lane % 4 * 2 + side;
          const RowFacts column = (shared.columns + part)[at];
          const QueryFacts facts = (shared.queries + part)[at];
          const float log_sum_exp2 = at < real ? facts.log_sum_exp2 : INFINITY;
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const int i = 2 * row + side;
            const float score = fmaf(p[n][i], shape.scale2, rows.bias(tables, row, column));
            const float probability = exp2_fast(score - log_sum_exp2 - facts.log_sum_rest2);
            const bool kept = bits.keeps(shape, at, block.lane / 4 + 8 * row);
            p[n][i] = kept ? probability : 0.0F;
            ds[n][i] = probability * ((kept ? ds[n][i] * shape.keep_scale : 0.0F) - facts.delta);
          }
        }
      }
      if constexpr (kValues) add_product(dv_sums, p, doutput, staging);
      if constexpr (kKeys) add_product(dk_sums, ds, q, staging);
    }
  });
  // A masked key has no gradient, whatever became of its sums: none of them was another's.
  const std::int64_t at = block.warp_first(), real = block.real(at);
  const RowFacts* const facts = shared.rows + 16 * block.warp + block.lane / 4;
  if (facts[0].mask == 0) clear_row(0, dk_sums, dv_sums);
  if (facts[8].mask == 0) clear_row(1, dk_sums, dv_sums);
  if constexpr (kKeys) store_rows<T>(dk_sums, shape.scale, shape.scale, block.row_of(dk, at), real, shape);
  if constexpr (kValues) store_rows<T>(dv_sums, shape.keep_scale, shape.keep_scale, block.row_of(dv, at), real, shape);
}

// The largest of what the threads of a block hold, for all of them. `shared`: a float a warp and one more.
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

// The sums of ds by the bins of the three tables, over a block's queries: lanes add to kCopies copies of them;
// what falls into a table's last bins, where most distances of a page do, stays in registers.
template <typename T, int kWidth>
class TableSums {
 public:
  using Form = AttentionTiles<T, kWidth>;
  using Fixed = FixedPoint<T>;
  using Sum = typename Fixed::Sum;

  __device__ TableSums(const BackwardShared<T, kWidth>& shared, const BackwardTensors<T>& t,
                       const AttentionShape& shape, int head, std::int64_t begin, std::int64_t end, std::int64_t first)
      : shape_(shape), shared_(shared) {
    float dout_norm = 0, v_norm = 0;
    for (std::int64_t row = first + threadIdx.x; row < end && row < first + Form::kRows; row += Form::kThreads) {
      dout_norm = fmaxf(dout_norm, t.sums.dout_norm[row * shape.heads + head]);
    }
    for (std::int64_t row = begin + threadIdx.x; row < end; row += Form::kThreads) {
      v_norm = fmaxf(v_norm, t.sums.v_norm[row * shape.heads + head]);
    }
    // Infinite or NaN if a value is: the sums are then NaN by what their unit does to them.
    const float bound = block_max<Form::kWarps>(dout_norm, shared.bound) *
                        block_max<Form::kWarps>(v_norm, shared.bound) * shape.keep_scale;
    units_ = bound > 0 ? Fixed::kUnits / bound : 0.0F;
    if (threadIdx.x == 0) shared.bound[Form::kWarps] = bound;
    const int all = shape.all_bins() * kCopies;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += Form::kThreads) shared.sums[i] = 0;
    int low = 0;
    for (const BucketEdges& edges : shape.edges) {
      for (int i = static_cast<int>(threadIdx.x); i <= 2 * edges.saturated; i += Form::kThreads) {
        const int bin = edges.bins == 0 ? 0 : edges.first + edges.bin(i - edges.saturated);
        shared.places[low + i] = static_cast<std::uint16_t>(bin * kCopies * static_cast<int>(sizeof(Sum)));
      }
      low += 2 * edges.saturated + 1;
    }
    lane_sums_.begin = shared.sums.begin + static_cast<int>(threadIdx.x % kWarp / 4 * sizeof(Sum));
  }

  // Adds what row i and a column have in common.
  __device__ void add(float ds, const DistanceTables& tables, const LaneRows<false>& rows, int i,
                      const RowFacts& column) {
    const auto value = Fixed::from(ds * units_);
#pragma unroll
    for (int t = 0; t < kTables; ++t) {
      const int entry = rows.entry(tables, t, i, column);
      const bool before = entry == tables.low[t], behind = entry == tables.high[t];
      if (before) before_[t] += value;
      if (behind) behind_[t] += value;
      if (!before && !behind) atomicAdd(sum_at(entry), value);
    }
  }

  // partial[head * bins + bin][slot]. All threads of the block call it.
  __device__ void write(const DistanceTables& tables, float* partial, int head, std::int64_t slot, std::int64_t slots) {
#pragma unroll
    for (int t = 0; t < kTables; ++t) {
      if (shape_.edges[t].bins == 0) continue;
      atomicAdd(sum_at(tables.low[t]), before_[t]);
      atomicAdd(sum_at(tables.high[t]), behind_[t]);
    }
    __syncthreads();
    const float bound = shared_.bound[Form::kWarps];
    const double unit = bound > 0 || bound != bound ? double{bound} / double{Fixed::kUnits} : 0.0;
    const int bins = shape_.all_bins();
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += Form::kThreads) {
      double sum = 0;
      for (int copy = 0; copy < kCopies; ++copy) sum += Fixed::value(shared_.sums[bin * kCopies + copy]);
      partial[(static_cast<std::int64_t>(head) * bins + bin) * slots + slot] = static_cast<float>(sum * unit);
    }
  }

 private:
  // The lane's sum of the bin that an entry of the distance tables belongs to: places are in bytes.
  __device__ Sum* sum_at(int entry) const { return SharedPiece<Sum>{lane_sums_.begin + shared_.places[entry]}; }

  const AttentionShape& shape_;
  const BackwardShared<T, kWidth>& shared_;
  float units_;
  SharedPiece<Sum> lane_sums_;
  Sum before_[kTables] = {}, behind_[kTables] = {};
};

struct NoTableSums {};

// A block keeps queries and walks over keys. `partial`: [heads * bins][slots], zeros where no block writes.
template <typename T, int kWidth, bool kTableGradients>
__global__ void __launch_bounds__(AttentionTiles<T, kWidth>::kThreads, AttentionTiles<T, kWidth>::kBlocksAtOnce)
    attention_query_grad(const BackwardTensors<T> t, const AttentionShape shape, T* dq, float* partial,
                         std::int64_t slots) {
  using Form = AttentionTiles<T, kWidth>;
  using Shared = BackwardShared<T, kWidth>;
  constexpr int kTile = Form::kTile;
  const AttentionTensors<T>& in = t.in;
  const BlockRows<Form> block(shape, in.offsets);
  if (block.first >= block.end) return;
  const Shared shared(shape, Form::kStages, true, kTableGradients);

  copy_rows<Form::kRows>(block, +shared.a, in.q, block.first, shape);
  copy_rows<Form::kRows>(block, +shared.b, t.doutput, block.first, shape);
  copy_facts<Form::kRows>(block, shared.rows, in, block.first);
  copy_query_facts<Form::kRows>(block, shared.queries, t, shape, block.first);
  const auto fetch = [&](std::int64_t key, int stage) {
    copy_rows<kTile>(block, shared.x + stage * Shared::kComing, in.k, key, shape);
    copy_rows<kTile>(block, shared.y + stage * Shared::kComing, in.v, key, shape);
    copy_facts<kTile>(block, shared.columns + stage * kTile, in, key);
    commit_copies();
  };
  fetch(block.begin, 0);
  const DistanceTables tables = make_distance_tables<Form::kThreads>(shared.distances, shape, in, block.head);
  std::conditional_t<kTableGradients, TableSums<T, kWidth>, NoTableSums> table_sums = [&] {
    if constexpr (kTableGradients) {
      return TableSums<T, kWidth>(shared, t, shape, block.head, block.begin, block.end, block.first);
    } else {
      return NoTableSums{};
    }
  }();
  const DropoutSite site(shape, in, block);
  const typename Shared::QueryBits bits{shared.bits + block.warp * Shared::QueryBits::kWords};

  float sums[Form::kOutBlocks][4] = {};
  LaneRows<false> rows;
  float log_sum_exp2[2] = {}, log_sum_rest2[2] = {}, delta[2] = {};
  walk(block, fetch, [&](std::int64_t first, int stage) {
    if (first == block.begin) {
      rows = LaneRows<false>(tables, shared.rows);
      for (int i = 0; i < 2; ++i) {
        const int row = 16 * block.warp + block.lane / 4 + 8 * i;
        const QueryFacts facts = shared.queries[row];
        // A row that does not exist, or whose keys are all masked, has probabilities of 0.
        const bool counts = block.first + row < block.end && facts.log_sum_exp2 != -INFINITY;
        log_sum_exp2[i] = counts ? facts.log_sum_exp2 : INFINITY;
        log_sum_rest2[i] = facts.log_sum_rest2;
        delta[i] = facts.delta;
      }
    }
#pragma unroll 1
    for (int part = stage * kTile; part < (stage + 1) * kTile; part += Form::kPart) {
      const std::int64_t key = first + part - stage * kTile;
      if (key >= block.end) break;
      const T *const k = shared.x + part * Form::kLeading, *const v = shared.y + part * Form::kLeading;
      if (shape.drops) bits.draw(site, block.warp_first() - block.begin, key - block.begin);
      float p[Form::kPartBlocks][4] = {}, ds[Form::kPartBlocks][4] = {};
      add_product_transposed<kWidth>(p, shared.a + 16 * block.warp * Form::kLeading, k);
      add_product_transposed<kWidth>(ds, shared.b + 16 * block.warp * Form::kLeading, v);
#pragma unroll
      for (int n = 0; n < Form::kPartBlocks; ++n) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int at = 8 * n + block.lane % 4 * 2 + side;
          const RowFacts column = (shared.columns + part)[at];
          const float shut = column.shut();
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const int i = 2 * row + side;
            const float score = fmaf(p[n][i], shape.scale2, shut) + rows.bias(tables, row, column);
            const float probability = exp2_fast(score - log_sum_exp2[row] - log_sum_rest2[row]);
            const bool kept = bits.keeps(shape, block.lane / 4 + 8 * row, at);
            ds[n][i] = probability * ((kept ? ds[n][i] * shape.keep_scale : 0.0F) - delta[row]);
            if constexpr (kTableGradients) table_sums.add(ds[n][i], tables, rows, row, column);
          }
        }
      }
      add_product(sums, ds, k, shared.staging + block.warp * Form::kStaging);
    }
  });
  store_rows<T>(sums, shape.scale, shape.scale, block.row_of(dq, block.warp_first()), block.real(block.warp_first()),
                shape);
  if constexpr (kTableGradients) {
    table_sums.write(tables, partial, block.head, block.begin / Form::kRows + blockIdx.z + blockIdx.x, slots);
  }
}

struct TableOutputs {
  float* at[kTables];  // [heads][bins]
};

// A warp a bin of a head: the partial sums of its slots, in an order that does not change.
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

template <typename T, int kWidth, bool kTableGradients>
std::unique_ptr<Kernel> make_backward(const Context& context, const AttentionShape& shape,
                                      const AttentionGradScratch& scratch, std::int64_t n, std::int64_t longest) {
  using Form = AttentionTiles<T, kWidth>;
  using Shared = BackwardShared<T, kWidth>;
  const int stages = Form::stages(context);
  const std::size_t keys_bytes = Shared(shape, stages, false, false).pieces.bytes();
  const std::size_t queries_bytes = Shared(shape, stages, true, kTableGradients).pieces.bytes();
  constexpr bool kAtOnce = kWidth <= 64;
  allow_shared_memory(context, attention_key_value_grad<T, kWidth, true, kAtOnce>, keys_bytes);
  if constexpr (!kAtOnce) allow_shared_memory(context, attention_key_value_grad<T, kWidth, false, true>, keys_bytes);
  allow_shared_memory(context, attention_query_grad<T, kWidth, kTableGradients>, queries_bytes);
  return make_launch(scratch.bytes, [=, &context](const KernelArguments& a) {
    const std::int64_t row_sums = scratch.row_sums, slots = scratch.slots, partials = scratch.partials;
    auto* const floats = reinterpret_cast<float*>(a.scratch.data());
    const BackwardTensors<T> t{AttentionTensors<T>(a, shape.form),
                               input<T>(a, 0),
                               {floats + 2 * row_sums, floats, kTableGradients ? floats + 3 * row_sums : nullptr,
                                kTableGradients ? floats + 4 * row_sums : nullptr}};
    float* const partial = floats + 5 * row_sums;
    constexpr unsigned kSumThreads = 256;
    launch(context.stream(), attention_row_sums<T>,
           {.blocks = blocks_for(a.bound(n) * shape.heads, kSumThreads / kWarp), .threads = kSumThreads}, t.doutput,
           input<T>(a, 4), t.in.v, input<float>(a, 5), t.in.offsets, shape, t.sums);
    const Launch keys = grid_of<Form>(shape, a.bound(longest), keys_bytes);
    launch(context.stream(), attention_key_value_grad<T, kWidth, true, kAtOnce>, keys, t, shape, output<T>(a, 1),
           output<T>(a, 2));
    if constexpr (!kAtOnce) {
      launch(context.stream(), attention_key_value_grad<T, kWidth, false, true>, keys, t, shape, output<T>(a, 1),
             output<T>(a, 2));
    }
    if (partials > 0) {
      check_cuda(cudaMemsetAsync(partial, 0, static_cast<std::size_t>(partials) * sizeof(float), context.stream()),
                 "zeros for the gradients of attention's bias tables");
    }
    launch(context.stream(), attention_query_grad<T, kWidth, kTableGradients>,
           grid_of<Form>(shape, a.bound(longest), queries_bytes), t, shape, output<T>(a, 0), partial, slots);
    if constexpr (kTableGradients) {
      TableOutputs to{};
      for (std::size_t table = 0; table < kTables; ++table) {
        if (shape.form.has_bias[table]) to.at[table] = output<float>(a, shape.form.table_gradient(table));
      }
      launch(context.stream(), attention_table_sums,
             {.blocks = (static_cast<unsigned>(shape.heads * shape.all_bins()) + kSumThreads / kWarp - 1) /
                        (kSumThreads / kWarp),
              .threads = kSumThreads},
             partial, slots, shape, to);
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const Context& context, const Graph& graph, const Node& node) {
  const AttentionShape shape = attention_shape(graph, node);
  const AttentionGradScratch scratch(graph, node, shape);
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const TensorType& q = graph.type(node.inputs[1]);
  const std::int64_t n = q.shape[0], longest = attributes.longest_sample > 0 ? attributes.longest_sample : n;
  return for_floating(q.dtype, [&]<typename T>(T) {
    return for_width(shape.head_size, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      return attributes.table_gradients ? make_backward<T, kWidth, true>(context, shape, scratch, n, longest)
                                        : make_backward<T, kWidth, false>(context, shape, scratch, n, longest);
    });
  });
}

}  // namespace plimsoll::cuda
