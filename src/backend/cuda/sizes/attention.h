// The sizes and attributes of an attention node as plain numbers for the kernels, and the scratch of its gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/attention_form.h"

namespace plimsoll::cuda {

constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.69314718055994531;
constexpr int kTables = static_cast<int>(AttentionForm::kBiases);

// The bin of a table that a distance falls into, as in graph/relative_bucket.h, given by the distances at which the
// bins begin: the device's logarithm might put an edge elsewhere.
struct BucketEdges {
  static constexpr int kMost = 63;  // for 256 bins, which a byte numbers
  std::int32_t bins = 0, exact = 0, steps = 0;
  std::int32_t saturated = 0;     // distances from here on fall into the last bin
  std::int32_t edge[kMost] = {};  // the distance at which bin exact + 1 + i begins
  std::int32_t first = 0;         // bins of the tables before this one
  // The distances that the tables distinguish are numbered, one table after the other; these are the numbers from which
  // on all distances share this table's last bin, on either side.
  std::int32_t low = 0, high = 0;

  constexpr int bin(int relative) const {
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
  AttentionForm form;
  std::int32_t heads = 0, head_size = 0;
  std::int32_t group = 1;  // heads that share one of k and v
  bool causal = false;
  std::int32_t samples = 0;
  float scale = 0, scale2 = 0;
  bool drops = false;
  std::uint32_t site = 0, threshold = 0, upper_threshold = 0;  // the last: the threshold in the upper half
  float keep_scale = 1;
  BucketEdges edges[kTables];
  std::int64_t longest = 0;      // most rows of a sample
  std::int32_t bias_stride = 0;  // elements from a query and head to the next in the matrix of biases; 0: no biases

  constexpr std::int64_t stride() const { return std::int64_t{heads} * head_size; }
  constexpr std::int64_t key_stride() const { return stride() / group; }  // of rows of k and v
  // Returns how many distances the three bias tables distinguish.
  constexpr int distances() const { return edges[kTables - 1].high + 1; }
  constexpr int all_bins() const { return edges[0].bins + edges[1].bins + edges[2].bins; }
  // A block keeps sums for all bins, and for one more if a table is absent, which would sum into it.
  constexpr int kept_bins() const { return all_bins() + (form.tables() < AttentionForm::kBiases ? 1 : 0); }
};

inline constexpr std::int32_t kMostHeadSize = 128;
inline constexpr std::int32_t kWarpgroupHeadSize = 64;  // of heads in halves that warpgroups multiply

// Returns the columns of a head as the kernels hold it: missing columns are zeros.
constexpr int attention_tile_width(std::int32_t head_size) {
  return head_size == 32 ? 32 : head_size <= 64 ? 64 : kMostHeadSize;
}

// Throws EnvironmentError if a head is wider than the kernels support.
void refuse_wide_heads(const Node& node, std::int64_t head_size);

// Reads the attributes of a kAttention, kAttentionGrad or kAttentionBias (which has no head_size). Throws
// EnvironmentError if a head is wider, or a table has more bins, than the kernels support.
AttentionShape attention_shape(const Graph& graph, const Node& node);

// Returns the rows of a sample and head that a block of the kernels takes, 16 per warp; `is_half`: q is of BF16 or F16.
constexpr int attention_block_rows(bool is_half) { return is_half ? 64 : 32; }

// The matrix of biases, as kAttentionBias makes it, of q's type: [n][heads][bias_stride] elements. If the node does not
// read one computed before, it is all that attention keeps in scratch, with its keys rounded up to a multiple of this.
inline constexpr int kBiasColumns = 64;
std::size_t attention_bias_bytes(const Graph& graph, const Node& node, const AttentionShape& shape);

// The places in scratch of the data that attention_grad passes to its later kernels, one part after the other.
struct AttentionGradScratch {
  AttentionGradScratch(const Graph& graph, const Node& node, const AttentionShape& shape);

  // Counts of floats.
  std::int64_t row_sums;  // [rows][heads], three times; five times with gradients of the bias tables
  std::int64_t slots;     // partial sums of each bin of a table, one for each block of rows
  std::int64_t turns;     // of 4 bytes, initially zeros: the blocks that have begun, then for each sample, head and
  std::int64_t partials;  // [heads][bins][slots], initially zeros
  // Sums of dq, for 16 rows of a sample each, and for each head in its tile's width, as the kernels hold them; also for
  // rows that do not exist.
  std::int64_t dq_begin, dq_sums;
  // dk and dv of each head, if heads share them: [rows][heads * head_size] each.
  std::int64_t shared_begin, shared_sums;
  // Sums over every 16 rows of a sample, of dq, dk and dv, if the node has their column sums.
  std::int64_t tiles;  // of 16 rows, of all samples
  std::int64_t tile_sums_begin, tile_sums;
  std::size_t bias_begin;  // in bytes
  std::size_t bytes;
};

}  // namespace plimsoll::cuda
