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

constexpr int kCopies = 4;  // of a warp's sums, so that its lanes meet less often

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

// What the first kernel leaves for the others, [n][heads] each.
struct RowSums {
  float* delta;      // output . doutput
  float* dout_norm;  // Euclidean norms, infinite where a value is not finite; nullptr without table gradients
  float* v_norm;
};

__device__ inline float norm_of(float squares) { return squares <= 3.4e38F ? sqrtf(squares) : INFINITY; }

// A warp a row of a head.
template <typename T>
__global__ void attention_row_sums(const T* doutput, const T* output, const T* v, const std::int32_t* offsets,
                                   const AttentionShape shape, RowSums to) {
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
    if (to.dout_norm != nullptr) {
      to.dout_norm[item] = norm_of(dout_squares);
      to.v_norm[item] = norm_of(v_squares);
    }
  }
}

// Shared memory of both walks: what stays, `a` and `b`, and what comes by, `x` and `y`.
template <typename T, int kWidth>
struct BackwardShared {
  using Form = AttentionForm<T, kWidth>;
  using Sum = typename FixedPoint<T>::Sum;
  static constexpr int kComing = Form::kTile * Form::kLeading;
  static constexpr int kKeeps = Form::kTile > Form::kRows ? Form::kTile : Form::kRows;  // words a warp, at most
  SharedPieces pieces;
  T *a, *b, *x, *y;
  std::int32_t *rows, *columns;
  float *distances, *staging, *bound;
  unsigned* keeps;
  std::uint8_t* starts;
  std::uint16_t* bins = nullptr;
  Sum* sums = nullptr;

  PLIMSOLL_HOST_DEVICE BackwardShared(unsigned char* memory, const AttentionShape& shape, int stages, bool tables)
      : pieces(memory) {
    a = pieces.take<T>(Form::kRows * Form::kLeading);
    b = pieces.take<T>(Form::kRows * Form::kLeading);
    x = pieces.take<T>(stages * kComing);
    y = pieces.take<T>(stages * kComing);
    rows = pieces.take<std::int32_t>(RowFacts<Form::kRows>::kWords);
    columns = pieces.take<std::int32_t>(stages * RowFacts<Form::kTile>::kWords);
    distances = pieces.take<float>(shape.distances());
    staging = pieces.take<float>(Form::kStaging * Form::kWarps);
    bound = pieces.take<float>(Form::kWarps + 1);
    keeps = pieces.take<unsigned>(kKeeps * Form::kWarps);
    starts = pieces.take<std::uint8_t>(Form::kWarps * (Form::kTile + 16));
    if (!tables) return;
    bins = pieces.take<std::uint16_t>(shape.distances());
    sums = pieces.take<Sum>(Form::kWarps * shape.all_bins() * kCopies);
  }
  __device__ RowFacts<Form::kTile> facts(int stage) const { return {columns + stage * RowFacts<Form::kTile>::kWords}; }
};

template <typename T>
struct BackwardTensors {
  AttentionTensors<T> in;
  const T* doutput;
  const float* log_sum_exp;  // [n][heads]
  RowSums sums;
};

template <int kRows, int kThreads, typename T>
__device__ void copy_query_facts(const RowFacts<kRows>& to, const BackwardTensors<T>& t, const AttentionShape& shape,
                                 int head, std::int64_t first, std::int64_t real) {
  copy_facts<kRows, kThreads>(to, t.in, first, real, true);
  const std::int64_t at = first * shape.heads + head;
  copy_words<kRows, kThreads>(to.log_sum_exp(), t.log_sum_exp + at, shape.heads, real);
  copy_words<kRows, kThreads>(to.delta(), t.sums.delta + at, shape.heads, real);
}

// A block keeps keys and walks over queries. Wide heads have registers for the sums of one of dk and dv alone, and take
// a launch for each.
template <typename T, int kWidth, bool kKeys, bool kValues>
__global__ void __launch_bounds__(AttentionForm<T, kWidth>::kThreads, AttentionForm<T, kWidth>::kBackwardBlocks)
    attention_key_value_grad(const BackwardTensors<T> t, const AttentionShape shape, T* dk, T* dv) {
  using Form = AttentionForm<T, kWidth>;
  using Shared = BackwardShared<T, kWidth>;
  constexpr int kTile = Form::kTile, kThreads = Form::kThreads;
  const AttentionTensors<T>& in = t.in;
  const BlockRows<Form> block(shape, in.offsets);
  if (block.first >= block.end) return;
  const Shared shared(dynamic_shared<unsigned char>(), shape, Form::kStages, false);
  const RowFacts<Form::kRows> keys{shared.rows};
  float* const staging = shared.staging + block.warp * Form::kStaging;
  unsigned* const keeps = shared.keeps + block.warp * Shared::kKeeps;
  std::uint8_t* const starts = shared.starts + block.warp * (kTile + 16);

  copy_tile<T, Form::kRows, kWidth, kThreads>(shared.a, block.row_of(in.k, block.first), block.real(block.first),
                                              shape);
  copy_tile<T, Form::kRows, kWidth, kThreads>(shared.b, block.row_of(in.v, block.first), block.real(block.first),
                                              shape);
  copy_facts<Form::kRows, kThreads>(keys, in, block.first, block.real(block.first), false);
  const auto fetch = [&](std::int64_t query, int stage) {
    T *const x = shared.x + stage * Shared::kComing, *const y = shared.y + stage * Shared::kComing;
    copy_tile<T, kTile, kWidth, kThreads>(x, block.row_of(in.q, query), block.real(query), shape);
    copy_tile<T, kTile, kWidth, kThreads>(y, block.row_of(t.doutput, query), block.real(query), shape);
    copy_query_facts<kTile, kThreads>(shared.facts(stage), t, shape, block.head, query, block.real(query));
    commit_copies();
  };
  fetch(block.begin, 0);
  const DistanceTables tables = make_distance_tables<kThreads>(shared.distances, shape, in, block.head);

  float dk_sums[Form::kOutBlocks][4] = {}, dv_sums[Form::kOutBlocks][4] = {};
  LaneRows rows;
  bool counts[2] = {};
  int runs = 0;
  walk(block, fetch, [&](std::int64_t query, int stage) {
    const RowFacts<kTile> columns = shared.facts(stage);
    const T *const q = shared.x + stage * Shared::kComing, *const doutput = shared.y + stage * Shared::kComing;
    if (query == block.begin) {
      rows = lane_rows(keys);
      for (int i = 0; i < 2; ++i) counts[i] = keys.mask()[16 * block.warp + block.lane / 4 + 8 * i] != 0;
      if (shape.drops) runs = find_runs<16>(keys.token() + 16 * block.warp, starts);
    }
    if (shape.drops) {
      find_kept<kTile, 16>(keeps, shape, in.dropout_key, block.head, columns.token(), columns.sample(),
                           keys.token() + 16 * block.warp, starts, runs);
    }
    float p[Form::kBlocks][4] = {}, ds[Form::kBlocks][4] = {};
    add_product_transposed<kWidth>(p, shared.a + 16 * block.warp * Form::kLeading, q);
    if constexpr (kKeys) add_product_transposed<kWidth>(ds, shared.b + 16 * block.warp * Form::kLeading, doutput);
#pragma unroll
    for (int n = 0; n < Form::kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 8 * n + block.lane % 4 * 2 + i % 2;
        const float score = fmaf(p[n][i], shape.scale2, bias_of<true>(tables, rows, i / 2, columns, column));
        const bool exists = counts[i / 2] && query + column < block.end;
        const float probability = exists ? exp2_fast(score - columns.log_sum_exp()[column] * kLog2E) : 0.0F;
        const bool kept = !shape.drops || (keeps[column] >> (block.lane / 4 + 8 * (i / 2)) & 1U) != 0;
        p[n][i] = kept ? probability : 0.0F;
        ds[n][i] = probability * ((kept ? ds[n][i] * shape.keep_scale : 0.0F) - columns.delta()[column]);
      }
    }
    if constexpr (kValues) add_product(dv_sums, p, doutput, staging);
    if constexpr (kKeys) add_product(dk_sums, ds, q, staging);
  });
  const std::int64_t at = block.warp_first(), real = block.real(at);
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

// The sums of ds by the bins of the three tables, over a block's queries: a warp's lanes add to kCopies copies of them;
// what falls into a table's last bins, where most distances of a page do, stays in registers.
template <typename T, int kWidth>
class TableSums {
 public:
  using Form = AttentionForm<T, kWidth>;
  using Fixed = FixedPoint<T>;

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
    // Infinite or NaN if a value is: the sums are then NaN by what unit_ does to them.
    const float bound = block_max<Form::kWarps>(dout_norm, shared.bound) *
                        block_max<Form::kWarps>(v_norm, shared.bound) * shape.keep_scale;
    units_ = bound > 0 ? Fixed::kUnits / bound : 0.0F;
    unit_ = bound > 0 || bound != bound ? double{bound} / double{Fixed::kUnits} : 0.0;
    const int all = Form::kWarps * shape.all_bins() * kCopies;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += Form::kThreads) shared.sums[i] = 0;
    std::uint16_t* of = shared.bins;
    for (const BucketEdges& edges : shape.edges) {
      for (int d = static_cast<int>(threadIdx.x) - edges.saturated; d <= edges.saturated; d += Form::kThreads) {
        if (edges.bins > 0) of[d + edges.saturated] = static_cast<std::uint16_t>(edges.first + edges.bin(d));
      }
      of += 2 * edges.saturated + 1;
    }
    lane_sums_ = shared.sums + threadIdx.x / kWarp * static_cast<unsigned>(shape.all_bins() * kCopies) +
                 threadIdx.x % kWarp / 4 % kCopies;
  }

  __device__ void add(float ds, const LaneRows& rows, int row, const RowFacts<Form::kTile>& columns, int column) {
    const auto value = Fixed::from(ds * units_);
    const std::uint16_t* of = shared_.bins;
#pragma unroll
    for (int t = 0; t < kTables; ++t) {
      const BucketEdges& edges = shape_.edges[t];
      const int distance = columns.coordinates(t)[column] - rows.coordinates[row][t];
      if (distance <= -edges.saturated) {
        before_[t] += value;
      } else if (distance >= edges.saturated) {
        behind_[t] += value;
      } else {
        atomicAdd(&lane_sums_[of[distance + edges.saturated] * kCopies], value);
      }
      of += 2 * edges.saturated + 1;
    }
  }

  // partial[head * bins + bin][slot]. All threads of the block call it.
  __device__ void write(float* partial, int head, std::int64_t slot, std::int64_t slots) {
    const std::uint16_t* of = shared_.bins;
#pragma unroll
    for (int t = 0; t < kTables; ++t) {
      const BucketEdges& edges = shape_.edges[t];
      if (edges.bins > 0) {
        atomicAdd(&lane_sums_[of[0] * kCopies], before_[t]);
        atomicAdd(&lane_sums_[of[2 * edges.saturated] * kCopies], behind_[t]);
      }
      of += 2 * edges.saturated + 1;
    }
    __syncthreads();
    const int bins = shape_.all_bins();
    for (int bin = static_cast<int>(threadIdx.x); bin < bins; bin += Form::kThreads) {
      double sum = 0;
      for (int warp = 0; warp < Form::kWarps; ++warp) {
        for (int copy = 0; copy < kCopies; ++copy) {
          sum += Fixed::value(shared_.sums[(warp * bins + bin) * kCopies + copy]);
        }
      }
      partial[(static_cast<std::int64_t>(head) * bins + bin) * slots + slot] = static_cast<float>(sum * unit_);
    }
  }

 private:
  const AttentionShape& shape_;
  const BackwardShared<T, kWidth>& shared_;
  float units_;
  double unit_;
  typename Fixed::Sum* lane_sums_;
  typename Fixed::Sum before_[kTables] = {}, behind_[kTables] = {};
};

struct NoTableSums {};

// A block keeps queries and walks over keys. `partial`: [heads * bins][slots], zeros where no block writes.
template <typename T, int kWidth, bool kTableGradients>
__global__ void __launch_bounds__(AttentionForm<T, kWidth>::kThreads, AttentionForm<T, kWidth>::kBackwardBlocks)
    attention_query_grad(const BackwardTensors<T> t, const AttentionShape shape, T* dq, float* partial,
                         std::int64_t slots) {
  using Form = AttentionForm<T, kWidth>;
  using Shared = BackwardShared<T, kWidth>;
  constexpr int kTile = Form::kTile, kThreads = Form::kThreads;
  const AttentionTensors<T>& in = t.in;
  const BlockRows<Form> block(shape, in.offsets);
  if (block.first >= block.end) return;
  const Shared shared(dynamic_shared<unsigned char>(), shape, Form::kStages, kTableGradients);
  const RowFacts<Form::kRows> queries{shared.rows};
  unsigned* const keeps = shared.keeps + block.warp * Shared::kKeeps;
  std::uint8_t* const starts = shared.starts + block.warp * (kTile + 16);

  copy_tile<T, Form::kRows, kWidth, kThreads>(shared.a, block.row_of(in.q, block.first), block.real(block.first),
                                              shape);
  copy_tile<T, Form::kRows, kWidth, kThreads>(shared.b, block.row_of(t.doutput, block.first), block.real(block.first),
                                              shape);
  copy_query_facts<Form::kRows, kThreads>(queries, t, shape, block.head, block.first, block.real(block.first));
  const auto fetch = [&](std::int64_t key, int stage) {
    T *const x = shared.x + stage * Shared::kComing, *const y = shared.y + stage * Shared::kComing;
    copy_tile<T, kTile, kWidth, kThreads>(x, block.row_of(in.k, key), block.real(key), shape);
    copy_tile<T, kTile, kWidth, kThreads>(y, block.row_of(in.v, key), block.real(key), shape);
    copy_facts<kTile, kThreads>(shared.facts(stage), in, key, block.real(key), false);
    commit_copies();
  };
  fetch(block.begin, 0);
  const DistanceTables tables = make_distance_tables<kThreads>(shared.distances, shape, in, block.head);
  std::conditional_t<kTableGradients, TableSums<T, kWidth>, NoTableSums> table_sums = [&] {
    if constexpr (kTableGradients) {
      return TableSums<T, kWidth>(shared, t, shape, block.head, block.begin, block.end, block.first);
    } else {
      return NoTableSums{};
    }
  }();

  float sums[Form::kOutBlocks][4] = {};
  LaneRows rows;
  float log_sum_exp2[2] = {}, delta[2] = {};
  walk(block, fetch, [&](std::int64_t key, int stage) {
    const RowFacts<kTile> columns = shared.facts(stage);
    const T *const k = shared.x + stage * Shared::kComing, *const v = shared.y + stage * Shared::kComing;
    if (key == block.begin) {
      rows = lane_rows(queries);
      for (int i = 0; i < 2; ++i) {
        const int row = 16 * block.warp + block.lane / 4 + 8 * i;
        log_sum_exp2[i] = queries.log_sum_exp()[row] * kLog2E;
        delta[i] = queries.delta()[row];
      }
    }
    if (shape.drops) {
      const int runs = find_runs<kTile>(columns.token(), starts);
      find_kept<16, kTile>(keeps, shape, in.dropout_key, block.head, queries.token() + 16 * block.warp,
                           queries.sample() + 16 * block.warp, columns.token(), starts, runs);
    }
    float p[Form::kBlocks][4] = {}, ds[Form::kBlocks][4] = {};
    add_product_transposed<kWidth>(p, shared.a + 16 * block.warp * Form::kLeading, k);
    add_product_transposed<kWidth>(ds, shared.b + 16 * block.warp * Form::kLeading, v);
#pragma unroll
    for (int n = 0; n < Form::kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 8 * n + block.lane % 4 * 2 + i % 2;
        const float score = fmaf(p[n][i], shape.scale2, bias_of<false>(tables, rows, i / 2, columns, column));
        const bool counts =
            columns.mask()[column] != 0 && block.warp_first() + block.lane / 4 + 8 * (i / 2) < block.end;
        const float probability = counts ? exp2_fast(score - log_sum_exp2[i / 2]) : 0.0F;
        const unsigned word = keeps[(block.lane / 4 + 8 * (i / 2)) * Form::kWords + column / 32];
        const bool kept = !shape.drops || (word >> (column % 32) & 1U) != 0;
        ds[n][i] = probability * ((kept ? ds[n][i] * shape.keep_scale : 0.0F) - delta[i / 2]);
        if constexpr (kTableGradients) table_sums.add(ds[n][i], rows, i / 2, columns, column);
      }
    }
    add_product(sums, ds, k, shared.staging + block.warp * Form::kStaging);
  });
  store_rows<T>(sums, shape.scale, shape.scale, block.row_of(dq, block.warp_first()), block.real(block.warp_first()),
                shape);
  if constexpr (kTableGradients) {
    table_sums.write(partial, block.head, block.begin / Form::kRows + blockIdx.z + blockIdx.x, slots);
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
std::unique_ptr<Kernel> make_backward(const Context& context, const AttentionShape& shape, std::int64_t n,
                                      std::int64_t longest) {
  using Form = AttentionForm<T, kWidth>;
  const auto shared_bytes = [&](bool tables) {
    return BackwardShared<T, kWidth>(nullptr, shape, Form::stages(context), tables).pieces.bytes();
  };
  const std::size_t keys_bytes = shared_bytes(false), queries_bytes = shared_bytes(kTableGradients);
  constexpr bool kAtOnce = kWidth <= 64;
  allow_shared_memory(context, attention_key_value_grad<T, kWidth, true, kAtOnce>, keys_bytes);
  if constexpr (!kAtOnce) allow_shared_memory(context, attention_key_value_grad<T, kWidth, false, true>, keys_bytes);
  allow_shared_memory(context, attention_query_grad<T, kWidth, kTableGradients>, queries_bytes);
  const std::int64_t row_sums = n * shape.heads, slots = n / Form::kRows + shape.samples + 1;
  const std::int64_t partials = kTableGradients ? shape.heads * shape.all_bins() * slots : 0;
  const auto scratch = static_cast<std::size_t>((kTableGradients ? 3 : 1) * row_sums + partials) * sizeof(float);
  return make_launch(scratch, [=, &context](const KernelArguments& a) {
    auto* const floats = reinterpret_cast<float*>(a.scratch.data());
    const BackwardTensors<T> t{
        AttentionTensors<T>(a, 1, 6),
        input<T>(a, 0),
        input<float>(a, 5),
        {floats, kTableGradients ? floats + row_sums : nullptr, kTableGradients ? floats + 2 * row_sums : nullptr}};
    float* const partial = floats + 3 * row_sums;
    constexpr unsigned kSumThreads = 256;
    launch(context.stream(), attention_row_sums<T>,
           {.blocks = blocks_for(a.bound(n) * shape.heads, kSumThreads / kWarp), .threads = kSumThreads}, t.doutput,
           input<T>(a, 4), t.in.v, t.in.offsets, shape, t.sums);
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
        to.at[table] = output<float>(a, 3 + table);
        if (shape.edges[table].bins > 0) continue;
        check_cuda(cudaMemsetAsync(to.at[table], 0, a.outputs[3 + table].bytes(), context.stream()),
                   "the gradient of a bias table that does not count");
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
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const TensorType& q = graph.type(node.inputs[1]);
  const std::int64_t n = q.shape[0], longest = attributes.longest_sample > 0 ? attributes.longest_sample : n;
  return for_floating(q.dtype, [&]<typename T>(T) {
    return for_width(shape.head_size, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      return attributes.table_gradients ? make_backward<T, kWidth, true>(context, shape, n, longest)
                                        : make_backward<T, kWidth, false>(context, shape, n, longest);
    });
  });
}

}  // namespace plimsoll::cuda
