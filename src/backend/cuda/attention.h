// Attention and its gradient on the GPU (attention.cu, attention_grad.cu) share this: both compute a head's scores tile
// by tile in the registers of a block's warps, and never store a tile.
//
// A block takes Form::kRows rows of one sample and head, 16 a warp, and walks over the sample's other side, kTile at a
// time: keys, if its rows are queries; queries, if they are keys. Scores are kept in units of log 2: s * scale2, where
// scale2 = log2(e) / sqrt(head size), so that their exponential is a power of 2.
#pragma once

#include <cmath>

#include "backend/cuda/launch.h"
#include "backend/cuda/sizes/attention.h"
#include "backend/cuda/warp_products.h"
#include "base/dropout.h"

namespace plimsoll::cuda {

// The tile sizes of a type, for heads of at most kWidth columns (the rest are zeros).
template <typename T, int kWidth>
struct AttentionTiles {
  static constexpr bool kHalf = sizeof(T) == 2;
  static constexpr int kRows = attention_block_rows(kHalf), kWarps = kRows / 16;
  static constexpr int kThreads = kWarps * static_cast<int>(kWarp);
  // Blocks that a multiprocessor's registers have room for, and, before Hopper, its shared memory: ptxas spills where
  // it hopes for one more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kBlocksAtOnce = kHalf ? 2 : 4;
#else
  static constexpr int kBlocksAtOnce = kHalf ? (kWidth == 64 ? 3 : 2) : 4;
#endif
  static constexpr int kColumns = kWidth, kTile = kHalf ? (kWidth <= 64 ? 64 : 32) : (kWidth <= 64 ? 32 : 16);
  // Tiles in shared memory: one is computed with, the other is on its way where the device copies by itself.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  static constexpr int kStages = 1;
#else
  static constexpr int kStages = kHalf ? 2 : 1;
#endif
  // The same as the host finds it.
  static int stages(const Context& context) { return context.architecture() < 80 ? 1 : kStages; }
  static constexpr int kPart = kHalf ? kTile / 2 : kTile;  // of a tile that the gradient has registers for
  static constexpr int kBlocks = kTile / 8, kPartBlocks = kPart / 8, kOutBlocks = kWidth / 8;  // of sums in registers
  static constexpr int kLeading = leading<T>(kWidth);
  static constexpr int kStaging = kHalf ? 0 : 16 * leading<float>(kTile);  // floats a warp, for add_product
};

// The head and the rows that a block works on, in a grid of (tiles of rows, heads, samples), and its thread's part.
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

// Returns that grid for samples of at most `longest` rows.
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
  const std::int32_t* offsets;                // [samples + 1]
  const std::int32_t* key_mask;               // [n]
  const std::int32_t* row_keys;               // [n][2]
  const std::int32_t* dropout_key;            // [2]
  const std::int32_t* coordinates = nullptr;  // [n][3], without biases none
  const float* tables[kTables] = {};          // [heads][bins]

  AttentionTensors(const KernelArguments& a, const AttentionForm& form)
      : q(input<T>(a, form.q())),
        k(input<T>(a, form.q() + 1)),
        v(input<T>(a, form.q() + 2)),
        offsets(input<std::int32_t>(a, form.sample_offsets())),
        key_mask(input<std::int32_t>(a, form.key_mask())),
        row_keys(input<std::int32_t>(a, form.row_keys())),
        dropout_key(input<std::int32_t>(a, form.dropout_key())) {
    if (form.tables() > 0) coordinates = input<std::int32_t>(a, form.coordinates());
    for (std::size_t t = 0; t < AttentionForm::kBiases; ++t) {
      if (form.has_bias[t]) tables[t] = input<float>(a, form.table(t));
    }
  }
};

// --- shared memory ---------------------------------------------------------------------------------------------------

// A piece of a block's shared memory, by where it begins: a pointer made from there is known to be one to shared
// memory, which takes half the instructions of one that may lead anywhere.
template <typename T>
struct SharedPiece {
  int begin = 0;
  __device__ operator T*() const { return reinterpret_cast<T*>(dynamic_shared<unsigned char>() + begin); }
};

// Hands them out; the host counts the bytes by the same walk.
class SharedPieces {
 public:
  template <typename T>
  PLIMSOLL_HOST_DEVICE SharedPiece<T> take(int count) {
    const SharedPiece<T> piece{bytes_};
    bytes_ += (count * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
    return piece;
  }
  PLIMSOLL_HOST_DEVICE std::size_t bytes() const { return static_cast<std::size_t>(bytes_); }

 private:
  int bytes_ = 0;
};

// A row of a tile has these besides its vector.
struct alignas(16) RowFacts {
  std::int32_t coordinates[kTables];
  std::int32_t mask;  // of keys: 0 if masked, or no row
  // Returns what a key's scores are added to. A masked key's scores become NaN where they are not finite, so its rows
  // must be numbers, too.
  __device__ float shut() const { return mask != 0 ? 0.0F : -INFINITY; }
};
// The gradient needs these of a query. The log of its sum of exp is a pair, a float and the rest: one float alone would
// lose the bits by which large scores differ.
struct alignas(16) QueryFacts {
  float log_sum_exp2, log_sum_rest2, delta;
};
// Writes such a pair.
__device__ inline void store_parts(double value, float* pair) {
  pair[0] = static_cast<float>(value);
  pair[1] = fabsf(pair[0]) < INFINITY ? static_cast<float>(value - double{pair[0]}) : 0.0F;
}

// --- copies to shared memory -----------------------------------------------------------------------------------------

// Rows [0, kRows) of one head, from global rows `stride` apart; those from `real` on and columns beyond the head are
// zeros. Whole 16 bytes arrive by wait_for_copies.
template <typename T, int kRows, int kWidth, int kThreads>
__device__ void copy_tile(T* tile, const T* from, std::int64_t real, const AttentionShape& shape) {
  constexpr int kChunk = 16 / sizeof(T), kChunks = kWidth / kChunk, kStep = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kRows % kStep == 0);
  const int first = static_cast<int>(threadIdx.x) / kChunks, column = static_cast<int>(threadIdx.x) % kChunks * kChunk;
  const std::int64_t stride = shape.stride();
  T* to = tile + first * leading<T>(kWidth) + column;
  if (shape.aligned) {
    const T* source = from + first * stride + column;
    const int rows = real < kRows ? static_cast<int>(real) : kRows;
    if (rows == kRows) {  // as it mostly is: without a comparison each
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i, source += kStep * stride) {
        copy_async<16>(to + i * kStep * leading<T>(kWidth), source, true);
      }
    } else {
#pragma unroll 1
      for (int row = first; row < kRows; row += kStep, source += kStep * stride) {
        copy_async<16>(to + (row - first) * leading<T>(kWidth), row < rows ? source : from, row < rows);
      }
    }
    return;
  }
#pragma unroll 1
  for (int row = first; row < kRows; row += kStep) {
#pragma unroll 1
    for (int c = 0; c < kChunk; ++c) {
      to[c] = row < real && column + c < shape.head_size ? from[row * stride + column + c] : from_float<T>(0);
    }
    to += kStep * leading<T>(kWidth);
  }
}

// Rows [first, first + kRows) of the block's sample and head.
template <int kRows, typename Form, typename T>
__device__ void copy_rows(const BlockRows<Form>& block, T* to, const T* tensor, std::int64_t first,
                          const AttentionShape& shape) {
  copy_tile<T, kRows, Form::kColumns, Form::kThreads>(to, block.row_of(tensor, first), block.real(first), shape);
}

// Copies what those rows carry; rows that do not exist get zeros.
template <int kRows, typename Form, typename T>
__device__ void copy_facts(const BlockRows<Form>& block, RowFacts* to, const AttentionTensors<T>& in,
                           std::int64_t first) {
  for (int row = static_cast<int>(threadIdx.x); row < kRows; row += Form::kThreads) {
    const bool exists = row < block.real(first);
    const std::int64_t at = first + (exists ? row : 0);
    for (int t = 0; t < kTables; ++t) {
      if (in.coordinates == nullptr) {
        to[row].coordinates[t] = 0;
      } else {
        copy_async<4>(&to[row].coordinates[t], in.coordinates + kTables * at + t, exists);
      }
    }
    copy_async<4>(&to[row].mask, in.key_mask + at, exists);
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

// The bias tables of a head by distance, times scale2, one behind the other in shared memory: entry low[t] is of the
// distance from which on all share table t's last bin on one side, high[t] of that on the other. A distance counts from
// query to key.
struct DistanceTables {
  const float* entries;
  int low[kTables], high[kTables];
};

template <int kThreads, typename T>
__device__ DistanceTables make_distance_tables(float* entries, const AttentionShape& shape,
                                               const AttentionTensors<T>& in, int head) {
  DistanceTables tables{.entries = entries, .low = {}, .high = {}};
  int low = 0;
  for (int t = 0; t < kTables; ++t) {
    const BucketEdges& edges = shape.edges[t];
    tables.low[t] = low;
    tables.high[t] = low + 2 * edges.saturated;
    for (int at = low + static_cast<int>(threadIdx.x); at <= tables.high[t]; at += kThreads) {
      const int distance = at - low - edges.saturated;
      entries[at] = edges.bins == 0 ? 0.0F : in.tables[t][head * edges.bins + edges.bin(distance)] * shape.scale2;
    }
    low = tables.high[t] + 1;
  }
  return tables;
}

// A lane's two rows of a tile of sums among the tables: where its distance to a row at coordinate 0 would stand, were
// the tables without end.
template <bool kRowsAreKeys>
struct LaneRows {
  int zero[2][kTables] = {};

  LaneRows() = default;
  __device__ LaneRows(const DistanceTables& tables, const RowFacts* facts) {
    const unsigned row = threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4;
    for (int i = 0; i < 2; ++i) {
      for (int t = 0; t < kTables; ++t) {
        const int middle = (tables.low[t] + tables.high[t]) / 2;
        const int coordinate = facts[row + 8 * static_cast<unsigned>(i)].coordinates[t];
        zero[i][t] = kRowsAreKeys ? middle + coordinate : middle - coordinate;
      }
    }
  }

  // Which entry of table t row i looks up for a column of the tile.
  __device__ int entry(const DistanceTables& tables, int t, int i, const RowFacts& column) const {
    const int at = kRowsAreKeys ? zero[i][t] - column.coordinates[t] : zero[i][t] + column.coordinates[t];
    return clamp(at, tables.low[t], tables.high[t]);
  }
  __device__ float bias(const DistanceTables& tables, int i, const RowFacts& column) const {
    float sum = tables.entries[entry(tables, 0, i, column)];
#pragma unroll
    for (int t = 1; t < kTables; ++t) sum += tables.entries[entry(tables, t, i, column)];
    return sum;
  }
};

// --- dropout ---------------------------------------------------------------------------------------------------------

// The part that is the same in the counters of all of a block's calls.
struct DropoutSite {
  PhiloxKey key{};
  std::uint32_t site = 0, sample = 0;

  template <typename Form, typename T>
  __device__ DropoutSite(const AttentionShape& shape, const AttentionTensors<T>& in, const BlockRows<Form>& block) {
    if (!shape.drops) return;
    key = {static_cast<std::uint32_t>(in.dropout_key[0]), static_cast<std::uint32_t>(in.dropout_key[1])};
    site = shape.site | static_cast<std::uint32_t>(block.head) << 16;
    sample = static_cast<std::uint32_t>(in.row_keys[2 * block.begin]);
  }
};

// The random bits of a warp's part of a tile, two keys a word (base/dropout.h). A call of Philox serves eight keys of a
// query, which lie in a tile as they do in a call: tiles and warps begin at multiples of eight rows of the sample.
template <int kQueries, int kKeys>
struct DropoutBits {
  static constexpr int kStride = kKeys / 2 + 4;  // words from query to query, that lanes meet no bank twice
  static constexpr int kWords = kQueries * kStride;
  unsigned* words;

  // By the lanes of the warp together; queries and keys count from the sample's first row.
  __device__ void draw(const DropoutSite& site, std::int64_t first_query, std::int64_t first_key) const {
    constexpr int kCalls = kQueries * kKeys / 8 / static_cast<int>(kWarp);
    static_assert(kCalls * 8 * static_cast<int>(kWarp) == kQueries * kKeys);
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    __syncwarp();
#pragma unroll 2
    for (int call = 0; call < kCalls; ++call) {
      const int item = call * static_cast<int>(kWarp) + lane, query = item % kQueries, eight = item / kQueries;
      const PhiloxOutput drawn = dropout_words(
          {static_cast<std::uint32_t>(first_query) + static_cast<std::uint32_t>(query),
           static_cast<std::uint32_t>(first_key) / 8 + static_cast<std::uint32_t>(eight), site.site, site.sample},
          site.key);
      *reinterpret_cast<Pack<unsigned, 4>*>(words + query * kStride +
                                            4 * eight) = {{drawn[0], drawn[1], drawn[2], drawn[3]}};
    }
    __syncwarp();
  }

  // Without dropout the threshold is 0, which keeps whatever lies there.
  __device__ bool keeps(const AttentionShape& shape, int query, int key) const {
    return words[query * kStride + key / 2] << (key % 2 == 0 ? 16 : 0) >= shape.upper_threshold;
  }
};

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
  check(head_size <= kMostHeadSize, "attention_shape refuses wider heads");
  return make(std::integral_constant<int, 128>{});
}

// Above 48 KiB a kernel has to be told; it keeps the most that any node of the process needs. As many blocks as
// registers have room for want nearly all that a multiprocessor divides between shared memory and cache.
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
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
      kWhat);
}

}  // namespace plimsoll::cuda
