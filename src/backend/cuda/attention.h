// What attention and its gradient share on the GPU (attention.cu, attention_grad.cu): both walk over tiles of a head's
// scores, the tile in the registers of a block's warps, and never store one.
//
// A block takes Form::kRows rows of one sample and head, 16 a warp, and walks over the sample's other side, kTile at a
// time: keys, if its rows are queries; queries, if they are keys. Scores are kept in units of log 2: s * scale2, where
// scale2 = log2(e) / sqrt(head size), so that their exponential is a power of 2.
#pragma once

#include <cmath>

#include "backend/cuda/launch.h"
#include "backend/cuda/warp_products.h"
#include "base/dropout.h"

namespace plimsoll::cuda {

constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.69314718055994531F;
constexpr int kTables = 3;  // position, x, y

// The tile sizes of a type, for heads of at most kWidth columns (the rest are zeros).
template <typename T, int kWidth>
struct AttentionForm {
  static constexpr bool kHalf = sizeof(T) == 2;
  static constexpr int kWarps = kHalf ? 4 : 2, kThreads = kWarps * static_cast<int>(kWarp), kRows = 16 * kWarps;
  // Blocks that a multiprocessor's registers have room for: ptxas spills where it hopes for one more.
  static constexpr int kBackwardBlocks = kHalf ? 2 : 4, kForwardBlocks = kHalf && kWidth <= 64 ? 3 : kBackwardBlocks;
  static constexpr int kTile = kHalf ? (kWidth <= 64 ? 64 : 32) : (kWidth <= 64 ? 32 : 16);
  static constexpr int kWords = (kTile + 31) / 32;  // of a bit a row of the tile
  // Tiles in shared memory: one is computed with, the other is on its way where the device copies by itself.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  static constexpr int kStages = 1;
#else
  static constexpr int kStages = kHalf ? 2 : 1;
#endif
  // The same as the host finds it.
  static int stages(const Context& context) { return context.architecture() < 80 ? 1 : kStages; }
  static constexpr int kBlocks = kTile / 8, kOutBlocks = kWidth / 8;  // of sums in registers
  static constexpr int kLeading = leading<T>(kWidth);
  static constexpr int kStaging = kHalf ? 0 : 16 * leading<float>(kTile);  // floats a warp, for add_product
};

// Which bin of a table a distance falls into, as graph/relative_bucket.h has it, by the distances at which the bins
// begin: the device's logarithm might put an edge elsewhere.
struct BucketEdges {
  static constexpr int kMost = 64;
  std::int32_t bins = 0, exact = 0, steps = 0;
  std::int32_t saturated = 0;     // distances from here on fall into the last bin
  std::int32_t edge[kMost] = {};  // the distance from which on bin exact + 1 + i takes over
  std::int32_t first = 0;         // bins of the tables before this one

  PLIMSOLL_HOST_DEVICE int bin(int relative) const {
    const int distance = relative < 0 ? -relative : relative;
    int bin = distance;
    if (distance >= exact) {
      bin = exact;
      for (int i = 0; i < steps; ++i) bin += distance >= edge[i] ? 1 : 0;
    }
    return relative > 0 ? bins / 2 + bin : bin;
  }
};

struct AttentionShape {
  std::int32_t heads = 0, head_size = 0;
  std::int32_t samples = 0;
  float scale = 0, scale2 = 0;
  bool aligned = false;  // rows of a head begin at 16 bytes and fill the tile's width
  bool drops = false;
  std::uint32_t site = 0, threshold = 0;
  float keep_scale = 1;
  BucketEdges edges[kTables];

  PLIMSOLL_HOST_DEVICE std::int64_t stride() const { return std::int64_t{heads} * head_size; }
  // Entries of the look-up tables that a block makes of the three bias tables, one a distance.
  PLIMSOLL_HOST_DEVICE int distances() const {
    return 2 * (edges[0].saturated + edges[1].saturated + edges[2].saturated) + kTables;
  }
  PLIMSOLL_HOST_DEVICE int all_bins() const { return edges[0].bins + edges[1].bins + edges[2].bins; }
};

// From the node's attributes. Throws EnvironmentError where a table has more bins than the kernels
// take.
AttentionShape attention_shape(const Graph& graph, const Node& node);

// Where a block works, in a grid of (tiles of rows, heads, samples), and a thread in it.
template <typename Form>
struct BlockRows {
  int head;
  std::int64_t begin, end;  // of the sample
  std::int64_t first;       // of the block, whose rows from `end` on do not exist
  std::int64_t stride, head_column;
  int warp, lane;

  __device__ BlockRows(const AttentionShape& shape, const std::int32_t* offsets)
      : head(static_cast<int>(blockIdx.y)),
        begin(offsets[blockIdx.z]),
        end(offsets[blockIdx.z + 1]),
        first(begin + static_cast<std::int64_t>(blockIdx.x) * Form::kRows),
        stride(shape.stride()),
        head_column(static_cast<std::int64_t>(head) * shape.head_size),
        warp(static_cast<int>(threadIdx.x / kWarp)),
        lane(static_cast<int>(threadIdx.x % kWarp)) {}

  __device__ std::int64_t warp_first() const { return first + 16 * warp; }
  // How many rows there are from this one on.
  __device__ std::int64_t real(std::int64_t row) const { return end - row; }
  // The head's part of a row of q, or of what lies like it.
  template <typename T>
  __device__ T* row_of(T* rows, std::int64_t row) const {
    return rows + row * stride + head_column;
  }
};

// That grid, for samples of at most `longest` rows.
template <typename Form>
Launch grid_of(const AttentionShape& shape, std::int64_t longest, std::size_t shared_bytes) {
  return {.blocks = static_cast<unsigned>((longest + Form::kRows - 1) / Form::kRows),
          .threads = Form::kThreads,
          .blocks_y = static_cast<unsigned>(shape.heads),
          .blocks_z = static_cast<unsigned>(shape.samples),
          .shared_bytes = shared_bytes};
}

template <typename T>
struct AttentionTensors {
  const T *q, *k, *v;
  const std::int32_t* offsets;      // [samples + 1]
  const std::int32_t* coordinates;  // [n][3]
  const std::int32_t* key_mask;     // [n]
  const float* tables[kTables];     // [heads][bins]
  const std::int32_t* row_keys;     // [n][2]
  const std::int32_t* dropout_key;  // [2]

  AttentionTensors(const KernelArguments& a, std::size_t qkv, std::size_t context)
      : q(input<T>(a, qkv)),
        k(input<T>(a, qkv + 1)),
        v(input<T>(a, qkv + 2)),
        offsets(input<std::int32_t>(a, context)),
        coordinates(input<std::int32_t>(a, context + 1)),
        key_mask(input<std::int32_t>(a, context + 2)),
        tables{input<float>(a, context + 3), input<float>(a, context + 4), input<float>(a, context + 5)},
        row_keys(input<std::int32_t>(a, context + 6)),
        dropout_key(input<std::int32_t>(a, context + 7)) {}
};

// --- shared memory ---------------------------------------------------------------------------------------------------

// Hands out pieces of a block's shared memory; the host, without any, counts the bytes by the same walk.
class SharedPieces {
 public:
  PLIMSOLL_HOST_DEVICE explicit SharedPieces(unsigned char* memory) : memory_(memory) {}
  template <typename T>
  PLIMSOLL_HOST_DEVICE T* take(int count) {
    T* const piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return piece;
  }
  PLIMSOLL_HOST_DEVICE std::size_t bytes() const { return bytes_; }

 private:
  unsigned char* memory_;
  std::size_t bytes_ = 0;
};

// What rows of a tile carry besides their vectors, kRows words each.
template <int kRows>
struct RowFacts {
  static constexpr int kWords = 8 * kRows;
  std::int32_t* words;

  __device__ std::int32_t* coordinates(int which) const { return words + which * kRows; }
  __device__ std::int32_t* token() const { return words + 3 * kRows; }
  __device__ std::int32_t* sample() const { return words + 4 * kRows; }  // the dropout's; of queries
  __device__ std::int32_t* mask() const { return words + 5 * kRows; }    // of keys: 0 if masked, or no row
  __device__ float* log_sum_exp() const { return reinterpret_cast<float*>(words + 6 * kRows); }  // of queries, for the
  __device__ float* delta() const { return reinterpret_cast<float*>(words + 7 * kRows); }        // gradient
};

// --- copies to shared memory -----------------------------------------------------------------------------------------

// Rows [0, kRows) of one head, from global rows `stride` apart; those from `real` on and columns beyond the head are
// zeros. Whole 16 bytes arrive by wait_for_copies.
template <typename T, int kRows, int kWidth, int kThreads>
__device__ void copy_tile(T* tile, const T* from, std::int64_t real, const AttentionShape& shape) {
  constexpr int kChunk = 16 / sizeof(T), kChunks = kWidth / kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * kChunk;
    T* const to = tile + row * leading<T>(kWidth) + column;
    const bool exists = row < real;
    const T* const source = from + (exists ? row : 0) * shape.stride() + column;
    if (shape.aligned) {
      copy_async<16>(to, source, exists);
    } else {
      for (int c = 0; c < kChunk; ++c) {
        to[c] = exists && column + c < shape.head_size ? source[c] : from_float<T>(0);
      }
    }
  }
}

template <int kRows, int kThreads>
__device__ void copy_words(std::int32_t* to, const std::int32_t* from, int step, std::int64_t real) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    const bool exists = i < real;
    copy_async<4>(to + i, from + (exists ? static_cast<std::int64_t>(i) * step : 0), exists);
  }
}
template <int kRows, int kThreads>
__device__ void copy_words(float* to, const float* from, int step, std::int64_t real) {
  copy_words<kRows, kThreads>(reinterpret_cast<std::int32_t*>(to), reinterpret_cast<const std::int32_t*>(from), step,
                              real);
}

// Coordinates and tokens of rows [first, first + kRows); `queries`: the dropout's samples too, else the masks.
template <int kRows, int kThreads, typename T>
__device__ void copy_facts(const RowFacts<kRows>& to, const AttentionTensors<T>& in, std::int64_t first,
                           std::int64_t real, bool queries) {
  for (int c = 0; c < 3; ++c) {
    copy_words<kRows, kThreads>(to.coordinates(c), in.coordinates + 3 * first + c, 3, real);
  }
  copy_words<kRows, kThreads>(to.token(), in.row_keys + 2 * first + 1, 2, real);
  if (queries) {
    copy_words<kRows, kThreads>(to.sample(), in.row_keys + 2 * first, 2, real);
  } else {
    copy_words<kRows, kThreads>(to.mask(), in.key_mask + first, 1, real);
  }
}

// --- the walk --------------------------------------------------------------------------------------------------------

// Walks over the sample's rows as the other side: fetch(first, stage) starts a tile's copies, compute(first, stage)
// takes it. Both are called by all threads of the block, fetch(block.begin, 0) before.
template <typename Form, typename Fetch, typename Compute>
__device__ void walk(const BlockRows<Form>& block, const Fetch& fetch, const Compute& compute) {
  int stage = 0;
  for (std::int64_t at = block.begin; at < block.end; at += Form::kTile) {
    const bool more = at + Form::kTile < block.end;
    if (Form::kStages > 1 && more) {
      fetch(at + Form::kTile, 1 - stage);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    compute(at, stage);
    __syncthreads();
    if (Form::kStages > 1) {
      stage = 1 - stage;
    } else if (more) {
      fetch(at + Form::kTile, 0);
    }
  }
}

// --- biases ----------------------------------------------------------------------------------------------------------

// The bias tables of a head by distance, times scale2, in shared memory.
struct DistanceTables {
  const float* center[kTables];  // the entry of distance 0
  int saturated[kTables];

  __device__ float bias(int table, int distance) const {
    const int most = saturated[table];
    const int clamped = distance < -most ? -most : distance > most ? most : distance;
    return center[table][clamped];
  }
};

template <int kThreads, typename T>
__device__ DistanceTables make_distance_tables(float* shared, const AttentionShape& shape,
                                               const AttentionTensors<T>& in, int head) {
  DistanceTables tables;
  for (int t = 0; t < kTables; ++t) {
    const BucketEdges& edges = shape.edges[t];
    float* const center = shared + edges.saturated;
    for (int d = static_cast<int>(threadIdx.x) - edges.saturated; d <= edges.saturated; d += kThreads) {
      center[d] = edges.bins == 0 ? 0.0F : in.tables[t][head * edges.bins + edges.bin(d)] * shape.scale2;
    }
    tables.center[t] = center;
    tables.saturated[t] = edges.saturated;
    shared += 2 * edges.saturated + 1;
  }
  return tables;
}

// The coordinates of a lane's two rows of a tile of sums.
struct LaneRows {
  int coordinates[2][3] = {};
};
template <int kRows>
__device__ LaneRows lane_rows(const RowFacts<kRows>& facts) {
  LaneRows rows;
  const unsigned row = threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4;
  for (int i = 0; i < 2; ++i) {
    for (int c = 0; c < 3; ++c) rows.coordinates[i][c] = facts.coordinates(c)[row + 8 * static_cast<unsigned>(i)];
  }
  return rows;
}

// The sum of the biases of a row and a column of the tile; distances count from query to key.
template <bool kRowsAreKeys, int kTile>
__device__ inline float bias_of(const DistanceTables& tables, const LaneRows& rows, int row,
                                const RowFacts<kTile>& columns, int column) {
  float sum = 0;
  for (int t = 0; t < kTables; ++t) {
    const int distance = columns.coordinates(t)[column] - rows.coordinates[row][t];
    sum += tables.bias(t, kRowsAreKeys ? -distance : distance);
  }
  return sum;
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// A Philox call serves the keys of four neighbouring tokens (base/dropout.h), which lie one after the other in a tile,
// but begin anywhere: the runs of keys that share a call. `starts`: kKeys + 1 places of the warp's; returns the number.
template <int kKeys>
__device__ int find_runs(const std::int32_t* tokens, std::uint8_t* starts) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  int count = 0;
  for (int base = 0; base < kKeys; base += static_cast<int>(kWarp)) {
    const int key = base + lane;
    const bool begins = key < kKeys && (key == 0 || tokens[key] / 4 != tokens[key - 1] / 4);
    const unsigned all = __ballot_sync(kAllLanes, begins);
    if (begins) starts[count + __popc(all & ((1U << lane) - 1))] = static_cast<std::uint8_t>(key);
    count += __popc(all);
  }
  if (lane == 0) starts[count] = kKeys;
  __syncwarp();
  return count;
}

// keeps[query][word]: a bit for each key, whether its probability is kept. kQueries is a power of two; the warp's.
template <int kQueries, int kKeys>
__device__ void find_kept(unsigned* keeps, const AttentionShape& shape, const std::int32_t* key, int head,
                          const std::int32_t* query_tokens, const std::int32_t* query_samples,
                          const std::int32_t* key_tokens, const std::uint8_t* starts, int runs) {
  constexpr int kWords = (kKeys + 31) / 32;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const PhiloxKey philox_key{static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1])};
  const std::uint32_t site = shape.site | static_cast<std::uint32_t>(head) << 16;
  __syncwarp();
  for (int i = lane; i < kQueries * kWords; i += static_cast<int>(kWarp)) keeps[i] = 0;
  __syncwarp();
  for (int i = lane; i < kQueries * runs; i += static_cast<int>(kWarp)) {
    const int query = i % kQueries, run = i / kQueries;
    const int begin = starts[run], end = starts[run + 1];
    const PhiloxOutput words =
        philox4x32({static_cast<std::uint32_t>(query_tokens[query]), static_cast<std::uint32_t>(key_tokens[begin] / 4),
                    site, static_cast<std::uint32_t>(query_samples[query])},
                   philox_key);
    unsigned kept = 0;
    for (unsigned w = 0; w < 4; ++w) kept |= (words[w] >= shape.threshold ? 1U : 0U) << w;
    std::uint64_t bits = 0;
    for (int k = begin; k < end; ++k) bits |= std::uint64_t{kept >> (key_tokens[k] % 4) & 1U} << k;
    for (int w = 0; w < kWords; ++w) {
      const auto part = static_cast<unsigned>(bits >> (32 * w));
      if (part != 0) atomicOr(&keeps[query * kWords + w], part);
    }
  }
  __syncwarp();
}

// --- results ---------------------------------------------------------------------------------------------------------

// Writes a warp's sums, times `factor` of each of the lane's two rows, as rows of one head; `real` of the 16 rows
// exist.
template <typename T, int kOutBlocks>
__device__ void store_rows(const float (&sums)[kOutBlocks][4], float low_factor, float high_factor, T* to,
                           std::int64_t real, const AttentionShape& shape) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), row = lane / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (row + 8 * i >= real) continue;
    T* const out = to + (row + 8 * i) * shape.stride();
    const float factor = i == 0 ? low_factor : high_factor;
#pragma unroll
    for (int n = 0; n < kOutBlocks; ++n) {
      const int column = 8 * n + lane % 4 * 2;
      const T left = from_float<T>(sums[n][2 * i] * factor), right = from_float<T>(sums[n][2 * i + 1] * factor);
      if (shape.aligned) {
        *reinterpret_cast<Pack<T, 2>*>(out + column) = {{left, right}};
      } else {
        if (column < shape.head_size) out[column] = left;
        if (column + 1 < shape.head_size) out[column + 1] = right;
      }
    }
  }
}

// make(std::integral_constant<int, width>) for the least width that holds a head.
template <typename Make>
auto for_width(std::int64_t head_size, const Make& make) {
  if (head_size <= 32) return make(std::integral_constant<int, 32>{});
  if (head_size <= 64) return make(std::integral_constant<int, 64>{});
  check(head_size <= 128, "heads have at most 128 columns");
  return make(std::integral_constant<int, 128>{});
}

// Above 48 KiB a kernel has to be told; it keeps the most that any node of the process needs.
template <typename Function>
void allow_shared_memory(const Context& context, Function* kernel, std::size_t bytes) {
  context.gpu().check_shared_memory(bytes, "attention",
                                    "--device cpu, or a model with narrower heads (hidden_size / num_attention_heads) "
                                    "or bias tables of shorter distances (max_rel_pos, max_rel_2d_pos)");
  constexpr const char* kWhat = "shared memory for the tiles of attention";
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), kWhat);
  if (bytes <= static_cast<std::size_t>(attributes.maxDynamicSharedSizeBytes)) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), kWhat);
}

}  // namespace plimsoll::cuda
