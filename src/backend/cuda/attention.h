// Attention and its gradient on the GPU share this (attention.cu, attention_grad.cu). Both compute a head's scores tile
// by tile in the registers of a block's warps, and never store a tile.
//
// A block takes Form::kRows rows of one sample and head, 16 per warp, and walks over the other side of the sample,
// kTile rows at a time: keys, if its rows are queries; queries, if they are keys. A score begins as the pair's bias, to
// which the product of query and key is added; its exponential is a power of 2, of score * scale2 - the largest, where
// scale2 = log2(e) / sqrt(head size).
//
// Biases come from a matrix that attention_bias.cu computes from the bias tables and the key mask, rounded to q's type,
// once for all layers or again for each node: looking up three tables for each score would take more instructions than
// everything else.
#pragma once

#include <cmath>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "backend/cuda/sizes/attention.h"
#include "backend/cuda/warp_products.h"
#include "base/dropout.h"

namespace plimsoll::cuda {

// The tile sizes of a type, for heads of kWidth columns, or, if not kExact, of at most that many: the rest are zeros,
// and rows may begin anywhere.
template <typename T, int kWidth, bool kExact>
struct AttentionTiles {
  static constexpr bool kHalf = sizeof(T) == 2;
  static constexpr bool kExactHeads = kExact;
  static constexpr int kRows = attention_block_rows(kHalf), kWarps = kRows / 16;
  static constexpr int kThreads = kWarps * static_cast<int>(kWarp);
  static constexpr int kCopiers = kThreads;  // threads that copy a tile
  static constexpr int kColumns = kWidth, kTile = kHalf ? (kWidth <= 64 ? 64 : 32) : (kWidth <= 64 ? 32 : 16);
  // The number of tiles in shared memory: two if the device copies asynchronously, one in use and one being copied.
  PLIMSOLL_HOST_DEVICE static constexpr int stages(int architecture) { return kHalf && architecture >= 80 ? 2 : 1; }
  static constexpr int kBlocks = kTile / 8, kOutBlocks = kWidth / 8;  // of sums in registers
  // Returns the place of an element of a tile in shared memory.
  template <int kTileColumns>
  static constexpr int leading_of = leading<T>(kTileColumns);
  template <int kTileColumns>
  PLIMSOLL_HOST_DEVICE static constexpr int offset(int row, int column) {
    return row * leading_of<kTileColumns> + column;
  }
  static constexpr int kLeading = leading_of<kWidth>;
  static constexpr int kStaging = kHalf ? 0 : 16 * leading<float>(kTile);  // floats per warp, for add_product
};

// The rows, sample and head that a block works on.
struct BlockPlace {
  unsigned tile, head, sample;
};

// Those rows, and the thread's part of them. Rows count from the sample's first.
template <typename Form>
struct BlockRows {
  int head, sample;
  int begins;               // the sample's first row among all rows
  int length;               // of the sample
  int first;                // row of the block; its rows from `length` on do not exist
  int stride, head_column;  // stride of the rows, and the head's first column in them
  int warp, lane;

  __device__ BlockRows(const AttentionShape& shape, const std::int32_t* offsets, const BlockPlace& place)
      : head(static_cast<int>(place.head)),
        sample(static_cast<int>(place.sample)),
        begins(offsets[place.sample]),
        length(offsets[place.sample + 1] - offsets[place.sample]),
        first(static_cast<int>(place.tile) * Form::kRows),
        stride(static_cast<int>(shape.stride())),
        head_column(head * shape.head_size),
        warp(static_cast<int>(threadIdx.x / kWarp)),
        lane(static_cast<int>(threadIdx.x % kWarp)) {}
  // Takes the block's place from a grid of (tiles of rows, heads, samples).
  __device__ BlockRows(const AttentionShape& shape, const std::int32_t* offsets)
      : BlockRows(shape, offsets, BlockPlace{blockIdx.x, blockIdx.y, blockIdx.z}) {}

  __device__ std::int64_t begin() const { return begins; }
  __device__ int warp_first() const { return first + 16 * warp; }
  // Returns the same rows for k and v, where several heads may share one.
  __device__ BlockRows of_keys(const AttentionShape& shape) const {
    BlockRows keys = *this;
    keys.stride = static_cast<int>(shape.key_stride());
    keys.head_column = head / shape.group * shape.head_size;
    return keys;
  }
  // Returns how many rows there are from this one on.
  __device__ int real(int row) const { return length - row; }
  // Returns the head's part of a row of q, or of a tensor with the same layout.
  template <typename T>
  __device__ T* row_of(T* rows, int row) const {
    return rows + (begin() + row) * stride + head_column;
  }
};

// Returns the grid for samples of at most `longest` rows.
template <typename Form>
Launch grid_of(const AttentionShape& shape, std::int64_t longest, std::size_t shared_bytes) {
  return {.blocks = static_cast<unsigned>((longest + Form::kRows - 1) / Form::kRows),
          .threads = Form::kThreads,
          .blocks_y = static_cast<unsigned>(shape.heads),
          .blocks_z = static_cast<unsigned>(shape.samples),
          .shared_bytes = shared_bytes};
}

// The tensors that biases are computed from.
struct BiasTensors {
  const std::int32_t* offsets;                // [samples + 1]
  const std::int32_t* key_mask;               // [n]
  const std::int32_t* coordinates = nullptr;  // [n][3]; nullptr without biases
  const float* tables[kTables] = {};          // [heads][bins]

  BiasTensors(const KernelArguments& a, const AttentionForm& form)
      : offsets(input<std::int32_t>(a, form.sample_offsets())), key_mask(input<std::int32_t>(a, form.key_mask())) {
    if (form.tables() > 0) coordinates = input<std::int32_t>(a, form.coordinates());
    for (std::size_t t = 0; t < AttentionForm::kBiases; ++t) {
      if (form.has_bias[t]) tables[t] = input<float>(a, form.table(t));
    }
  }
};

template <typename T>
struct AttentionTensors : BiasTensors {
  const T *q, *k, *v;
  const std::int32_t* row_keys;     // [n][2]
  const std::int32_t* dropout_key;  // [2]
  const T* biases = nullptr;        // [n][heads][bias_stride]; nullptr without tables

  AttentionTensors(const KernelArguments& a, const AttentionForm& form)
      : BiasTensors(a, form),
        q(input<T>(a, form.q())),
        k(input<T>(a, form.q() + 1)),
        v(input<T>(a, form.q() + 2)),
        row_keys(input<std::int32_t>(a, form.row_keys())),
        dropout_key(input<std::int32_t>(a, form.dropout_key())) {
    if (form.made_biases) biases = input<T>(a, form.biases());
  }
};

// --- shared memory ---------------------------------------------------------------------------------------------------

// A piece of a block's shared memory, given by its offset: the compiler then knows that a pointer into it points to
// shared memory, and access takes half the instructions of a generic pointer.
template <typename T>
struct SharedPiece {
  int begin = 0;
  __device__ operator T*() const { return reinterpret_cast<T*>(dynamic_shared<unsigned char>() + begin); }
};

// Hands out pieces; the host counts their bytes by the same calls.
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

// Holds what the sums of bias tables need of a row: its position, x and y.
struct alignas(16) RowFacts {
  std::int32_t coordinates[kTables];
  std::int32_t unused;
};
// Holds what the gradient needs of a query. The log of its sum of exp is a pair, a float and its rounding error: one
// float alone would lose the bits by which large scores differ.
struct alignas(16) QueryFacts {
  float log_sum_exp2, delta, log_sum_rest2;  // log_sum_exp2 is infinite if there is no row or all its keys are masked
};
// Writes such a pair.
__device__ inline void store_parts(double value, float* pair) {
  pair[0] = static_cast<float>(value);
  pair[1] = fabsf(pair[0]) < INFINITY ? static_cast<float>(value - double{pair[0]}) : 0.0F;
}

// --- copies to shared memory -----------------------------------------------------------------------------------------

// kCopiers of a block's threads copy a tile of kColumns columns in pieces of 16 bytes: a thread begins at this row and
// column, and continues kStep rows further down.
template <typename T, int kColumns, int kCopiers>
struct TileThread {
  static constexpr int kChunk = 16 / sizeof(T), kChunks = kColumns / kChunk, kStep = kCopiers / kChunks;
  static_assert(kCopiers % kChunks == 0);
  __device__ static int row() { return static_cast<int>(threadIdx.x) % kCopiers / kChunks; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kChunks * kChunk; }
};

// Copies rows of the block's sample and head, tile after tile; those beyond the sample's end and columns beyond the
// head are zeros. Pieces of 16 bytes have arrived after wait_for_copies.
template <int kRows, typename Form, typename T>
class RowCopies {
  using At = TileThread<T, Form::kColumns, Form::kCopiers>;

 public:
  __device__ RowCopies(const BlockRows<Form>& block, const T* tensor, int first, const AttentionShape& shape)
      : from_(block.row_of(tensor, first + At::row()) + At::column()),
        stride_(block.stride),
        columns_(shape.head_size - At::column()) {}

  // `real`: how many rows there are from the tile's first one on.
  __device__ void next(T* tile, int real) {
    static_assert(kRows % At::kStep == 0);
    T* const at = tile + Form::template offset<Form::kColumns>(At::row(), At::column());
    if constexpr (Form::kExactHeads) {
#pragma unroll
      for (int r = 0; r < kRows; r += At::kStep)
        copy_async<16>(at + r * Form::kLeading, from_ + r * stride_, r + At::row() < real);
    } else {
#pragma unroll 1
      for (int r = 0; r < kRows; r += At::kStep) {
#pragma unroll 1
        for (int c = 0; c < At::kChunk; ++c) {
          const bool exists = r + At::row() < real && c < columns_;
          at[r * Form::kLeading + c] = exists ? from_[r * stride_ + c] : from_float<T>(0);
        }
      }
    }
    from_ += kRows * stride_;
  }

 private:
  const T* from_;
  int stride_, columns_;
};

// Copies the rows' coordinates; rows that do not exist get zeros.
template <int kRows, typename Form>
__device__ void copy_facts(const BlockRows<Form>& block, RowFacts* to, const std::int32_t* coordinates, int first) {
  const int row = static_cast<int>(threadIdx.x);
  static_assert(kRows <= Form::kThreads);
  if (row >= kRows) return;
  const std::int32_t* const from = coordinates + kTables * (block.begin() + first + row);
#pragma unroll
  for (int t = 0; t < kTables; ++t) copy_async<4>(&to[row].coordinates[t], from + t, row < block.real(first));
}

// Copies the keys' mask; keys that do not exist are masked.
template <int kRows, typename Form>
__device__ void copy_mask(const BlockRows<Form>& block, std::int32_t* to, const std::int32_t* mask, int first) {
  const int row = static_cast<int>(threadIdx.x);
  static_assert(kRows <= Form::kThreads);
  if (row < kRows) copy_async<4>(to + row, mask + block.begin() + first + row, row < block.real(first));
}

// --- biases ----------------------------------------------------------------------------------------------------------

// Copies the biases of kQueries rows of the sample with kKeys of its keys. From tile to tile, either the queries or the
// keys (kKeysGo) move on. Queries that do not exist get zeros, keys beyond the matrix -infinity.
template <int kQueries, int kKeys, bool kKeysGo, typename Form, typename T>
class BiasCopies {
  using At = TileThread<T, kKeys, Form::kCopiers>;

 public:
  __device__ BiasCopies(const BlockRows<Form>& block, const T* biases, int query, int key, const AttentionShape& shape)
      : stride_(shape.heads * shape.bias_stride), keys_(shape.bias_stride - key - At::column()) {
    from_ =
        biases + (block.begin() + query + At::row()) * stride_ + block.head * shape.bias_stride + key + At::column();
  }

  // `real`: how many queries there are from the tile's first one on.
  __device__ void next(T* tile, int real) {
    static_assert(kQueries % At::kStep == 0);
    constexpr int kLeading = Form::template leading_of<kKeys>;
    T* const at = tile + Form::template offset<kKeys>(At::row(), At::column());
    if (keys_ > 0) {
#pragma unroll
      for (int r = 0; r < kQueries; r += At::kStep) {
        copy_async<16>(at + r * kLeading, from_ + r * stride_, r + At::row() < real);
      }
    } else {
      Pack<T, At::kChunk> shut;
      for (T& each : shut.at) each = from_float<T>(-INFINITY);
#pragma unroll 1
      for (int r = 0; r < kQueries; r += At::kStep) *reinterpret_cast<Pack<T, At::kChunk>*>(at + r * kLeading) = shut;
    }
    if constexpr (kKeysGo) {
      from_ += kKeys;
      keys_ -= kKeys;
    } else {
      from_ += kQueries * stride_;
    }
  }

 private:
  const T* from_;
  int stride_, keys_;
};

// Replaces it if there are no biases.
struct NoBiasCopies {
  template <typename... Arguments>
  __device__ explicit NoBiasCopies(const Arguments&...) {}
};

// Initializes the scores of a tile with its biases. The rows of `tile` are queries, and so are the rows, or with
// kTransposed the columns, of the sums.
template <bool kTransposed, int kLeading, int kBlocks>
__device__ void start_scores(float (&scores)[kBlocks][4], const float* tile) {
  const int row = static_cast<int>(threadIdx.x % kWarp / 4), column = static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + 8 * (i / 2), c = 8 * n + column + i % 2;
      scores[n][i] = kTransposed ? tile[c * kLeading + r] : tile[r * kLeading + c];
    }
  }
}
template <bool kTransposed, int kLeading, int kBlocks, typename T>
__device__ void start_scores(float (&scores)[kBlocks][4], const T* tile) {
  static_assert(kBlocks % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x % kWarp), matrix = lane / 8;
  // Matrices 0 and 1 are the sums' upper and lower eight rows of one block of columns, 2 and 3 those of the next.
  const int below = matrix % 2 * 8, beside = matrix / 2 * 8;
  const T* const from = tile + (lane % 8 + (kTransposed ? beside : below)) * kLeading + (kTransposed ? below : beside);
#pragma unroll
  for (int n = 0; n < kBlocks; n += 2) {
    std::uint32_t pairs[4];
    load_matrices<kTransposed>(from + 8 * n * (kTransposed ? kLeading : 1), pairs);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* const sums = scores[n + i / 2] + 2 * (i % 2);
      sums[0] = to_float(T{static_cast<std::uint16_t>(pairs[i])});
      sums[1] = to_float(T{static_cast<std::uint16_t>(pairs[i] >> 16)});
    }
  }
}

// Returns the initial value of a key's scores if there are no biases. Scores of a masked key that are not finite become
// NaN, so its rows must be finite, too.
__device__ inline float shut(std::int32_t mask) { return mask != 0 ? 0.0F : -INFINITY; }

// The numbers of a table's distances: (low + high) / 2 + d stands for -d, counted from query to key. So a number is the
// sum of a query's coordinate and of this, the key's contribution.
__device__ inline int distance_of_key(const BucketEdges& edges, int coordinate) {
  return (edges.low + edges.high) / 2 - coordinate;
}
__device__ inline int distance_number(const AttentionShape& shape, int table, int of_key, int query_coordinate) {
  const BucketEdges& edges = shape.edges[table];
  return clamped_sum(of_key, query_coordinate, table == 0 ? 0 : edges.low, edges.high);
}
// Fills bins[0 .. distances) with the bins of the distances in their tables. All threads of the block must call it.
__device__ inline void number_bins(std::uint8_t* bins, const AttentionShape& shape) {
  for (const BucketEdges& edges : shape.edges) {
    for (int at = edges.low + static_cast<int>(threadIdx.x); at <= edges.high; at += static_cast<int>(blockDim.x)) {
      bins[at] = static_cast<std::uint8_t>(edges.bins == 0 ? 0 : edges.bin(distance_of_key(edges, at)));
    }
  }
}

// --- the walk --------------------------------------------------------------------------------------------------------

// Walks over the sample's rows from `begin` to `end`, tile by tile: fetch(first, stage) starts a tile's copies,
// compute(first, stage) uses the tile. The caller has called fetch(begin, 0). arrive(first) is called before the
// barrier that precedes compute, and leave(first) after the barrier that follows it. All threads of the block call all
// of them.
template <typename Form, typename Fetch, typename Compute, typename Arrive, typename Leave>
__device__ void walk(int begin, int end, int stages, const Fetch& fetch, const Compute& compute, const Arrive& arrive,
                     const Leave& leave) {
  int stage = 0;
  for (int at = begin; at < end; at += Form::kTile) {
    const bool more = at + Form::kTile < end;
    if (stages > 1 && more) {
      fetch(at + Form::kTile, 1 - stage);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    arrive(at);
    __syncthreads();
    compute(at, stage);
    __syncthreads();
    leave(at);
    if (stages > 1) {
      stage = 1 - stage;
    } else if (more) {
      fetch(at + Form::kTile, 0);
    }
  }
}
template <typename Form, typename Fetch, typename Compute>
__device__ void walk(int begin, int end, int stages, const Fetch& fetch, const Compute& compute) {
  const auto nothing = [](int) {};
  walk<Form>(begin, end, stages, fetch, compute, nothing, nothing);
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// The part of the counters that is the same in all calls of a block.
struct DropoutSite {
  PhiloxKey key{};
  std::uint32_t site = 0, sample = 0;

  template <typename Form, typename T>
  __device__ DropoutSite(const AttentionShape& shape, const AttentionTensors<T>& in, const BlockRows<Form>& block) {
    if (!shape.drops) return;
    key = {static_cast<std::uint32_t>(in.dropout_key[0]), static_cast<std::uint32_t>(in.dropout_key[1])};
    site = shape.site | static_cast<std::uint32_t>(block.head) << 16;
    sample = static_cast<std::uint32_t>(in.row_keys[2 * block.begin()]);
  }
};

// The random bits of a warp's part of a tile, two keys per word (base/dropout.h). One Philox call serves eight keys of
// a query, which lie in a tile in the same order as in the call: tiles and warps begin at multiples of eight rows of
// the sample.
template <int kQueries, int kKeys>
struct DropoutBits {
  static constexpr int kStride = kKeys / 2 + 4;  // words from query to query, without bank conflicts
  static constexpr int kWords = kQueries * kStride;
  unsigned* words;

  // Draws the bits; all lanes of the warp call it. Queries and keys count from the sample's first row.
  __device__ void draw(const DropoutSite& site, int first_query, int first_key) const {
    constexpr int kCalls = kQueries * kKeys / 8 / static_cast<int>(kWarp);
    static_assert(kCalls * 8 * static_cast<int>(kWarp) == kQueries * kKeys);
    static_assert(static_cast<int>(kWarp) % kQueries == 0);
    const int lane = static_cast<int>(threadIdx.x % kWarp), query = lane % kQueries, first = lane / kQueries;
    auto* const to = reinterpret_cast<Pack<unsigned, 4>*>(words + query * kStride + 4 * first);
    const PhiloxCounter counter = {static_cast<std::uint32_t>(first_query + query),
                                   static_cast<std::uint32_t>(first_key / 8 + first), site.site, site.sample};
    __syncwarp();
#pragma unroll
    for (int call = 0; call < kCalls; ++call) {
      constexpr int kEights = static_cast<int>(kWarp) / kQueries;  // that the warp's lanes draw together
      const PhiloxOutput drawn = dropout_words(
          {counter[0], counter[1] + static_cast<std::uint32_t>(call * kEights), counter[2], counter[3]}, site.key);
      to[call * kEights] = {{drawn[0], drawn[1], drawn[2], drawn[3]}};
    }
    __syncwarp();
  }

  // Returns whether dropout keeps the pair at this distance, in queries and keys, from where the pointer points: to a
  // pair's 16 bits, or to a word, which holds two keys. Without dropout the threshold is 0, which keeps all pairs.
  __device__ static bool keeps(const std::uint16_t* bits, const AttentionShape& shape, int query, int key) {
    return bits[2 * query * kStride + key] >= shape.threshold;
  }
  __device__ static bool keeps(const unsigned* words, const AttentionShape& shape, int query, int key) {
    const unsigned word = words[query * kStride + key / 2];
    return (key % 2 != 0 ? word : word << 16) >= shape.upper_threshold;
  }
};

// --- results ---------------------------------------------------------------------------------------------------------

// Writes a warp's sums, times `factor` of each of the lane's two rows, as rows of one head; `real` of the 16 rows
// exist.
template <typename Form, typename T, int kOutBlocks>
__device__ void store_rows(const float (&sums)[kOutBlocks][4], float low_factor, float high_factor, T* to, int real,
                           const AttentionShape& shape) {
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
      if constexpr (Form::kExactHeads) {
        *reinterpret_cast<Pack<T, 2>*>(out + column) = {{left, right}};
      } else {
        if (column < shape.head_size) out[column] = left;
        if (column + 1 < shape.head_size) out[column + 1] = right;
      }
    }
  }
}

// Launches the kernel that computes the matrix of biases in `scratch`, for samples of at most `longest` rows; does
// nothing if there are no tables, or if the node reads a matrix that was computed before. prepare_biases checks the
// node when it is prepared.
template <typename T>
void make_biases(const Context& context, AttentionTensors<T>& in, const AttentionShape& shape, std::int64_t longest,
                 std::byte* scratch);
template <typename T>
void prepare_biases(const Context& context, const AttentionShape& shape);

// Returns whether the device multiplies by warpgroups and this build has kernels for that, which then serve these
// heads.
bool has_warpgroups(const Context& context);
template <typename T, int kWidth, bool kExact>
inline constexpr bool kForWarpgroups = sizeof(T) == 2 && kWidth == kWarpgroupHeadSize&& kExact;

template <int kWidth, bool kExact>
struct HeadForm {};

// Calls make(HeadForm) for the form that fits a head.
template <typename Make>
auto for_head(std::int64_t head_size, const Make& make) {
  const int width = attention_tile_width(static_cast<std::int32_t>(head_size));
  const bool is_exact = head_size == width;
  if (width == 32) return make(HeadForm<32, true>{});
  if (width == 64) return is_exact ? make(HeadForm<64, true>{}) : make(HeadForm<64, false>{});
  check(head_size <= kMostHeadSize, "attention_shape refuses wider heads");
  return is_exact ? make(HeadForm<128, true>{}) : make(HeadForm<128, false>{});
}

// Allows a kernel more than 48 KiB of shared memory, which needs a call; it keeps the most that any node of the process
// needs. As many blocks as the registers have room for need nearly all the memory that a multiprocessor divides between
// shared memory and cache.
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
