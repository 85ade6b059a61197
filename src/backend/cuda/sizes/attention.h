// An attention node's problem as plain numbers for the kernels, and the scratch of its gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/attention_form.h"

namespace plimsoll::cuda {

constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.69314718055994531;
constexpr int kTables = static_cast<int>(AttentionForm::kBiases);

// Which bin of a table a distance falls into, as graph/relative_bucket.h has it, by the distances at which the bins
// begin: the device's logarithm might put an edge elsewhere.
struct BucketEdges {
  static constexpr int kMost = 63;  // for 256 bins, which a byte numbers
  std::int32_t bins = 0, exact = 0, steps = 0;
  std::int32_t saturated = 0;     // distances from here on fall into the last bin
  std::int32_t edge[kMost] = {};  // the distance from which on bin exact + 1 + i takes over
  std::int32_t first = 0;         // bins of the tables before this one
  // The distances that the tables tell apart, table behind table, are numbered: the numbers of those from which on all
  // share this table's last bin on one side.
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
  std::int64_t longest = 0;      // rows of a sample at most
  std::int32_t bias_stride = 0;  // elements from a query and head to the next in the matrix of biases; 0: no biases

  constexpr std::int64_t stride() const { return std::int64_t{heads} * head_size; }
  constexpr std::int64_t key_stride() const { return stride() / group; }  // of rows of k and v
  // Distances that the three bias tables tell apart.
  constexpr int distances() const { return edges[kTables - 1].high + 1; }
  constexpr int all_bins() const { return edges[0].bins + edges[1].bins + edges[2].bins; }
  // A block keeps sums of those, and of one more bin, into which a table that is not there would sum.
  constexpr int kept_bins() const { return all_bins() + (form.tables() < AttentionForm::kBiases ? 1 : 0); }
};

inline constexpr std::int32_t kMostHeadSize = 128;
inline constexpr std::int32_t kWarpgroupHeadSize = 64;  // of heads that warpgroups multiply, in halves

// Columns of a head as the kernels hold it: those that it lacks are zeros.
constexpr int attention_tile_width(std::int32_t head_size) {
  return head_size == 32 ? 32 : head_size <= 64 ? 64 : kMostHeadSize;
}

// Throws EnvironmentError where a head is wider than the kernels take.
void refuse_wide_heads(const Node& node, std::int64_t head_size);

// From the attributes of a kAttention, kAttentionGrad or kAttentionBias, which has no head_size. Throws
// EnvironmentError where a head is wider, or a table has more bins, than the kernels take.
AttentionShape attention_shape(const Graph& graph, const Node& node);

// Rows of a sample and head that a block of the kernels takes, 16 a warp; `is_half`: q is of BF16 or F16.
constexpr int attention_block_rows(bool is_half) { return is_half ? 64 : 32; }

// The matrix of biases, as kAttentionBias makes it, of q's type: [n][heads][bias_stride] elements. Where the node does
// not read one that is made, it is all that attention keeps in scratch, and its keys are there up to a multiple of
// this.
inline constexpr int kBiasColumns = 64;
std::size_t attention_bias_bytes(const Graph& graph, const Node& node, const AttentionShape& shape);

// The places in scratch of what attention_grad leaves for its later kernels, one part behind the other.
struct AttentionGradScratch {
  AttentionGradScratch(const Graph& graph, const Node& node, const AttentionShape& shape);

  // Floats.
  std::int64_t row_sums;  // [rows][heads], three times; five times with gradients of the bias tables
  std::int64_t slots;     // partial sums of each bin of a table, one for each block of rows
  std::int64_t turns;     // of 4 bytes, that begin as zeros: the blocks that have begun, then for each sample, head and
                          // 16 rows the blocks that have added to their dq
  std::int64_t partials;  // [heads][bins][slots], that begin as zeros
  // Sums of dq: of 16 rows of a sample each, and of each head in its tile's width, as the kernels hold them; of rows
  // that do not exist, too.
  std::int64_t dq_begin, dq_sums;
  // dk and dv of each head, where heads share them: [rows][heads * head_size] each.
  std::int64_t shared_begin, shared_sums;
  // Sums over the rows of each 16 of a sample, of dq, dk and dv, where the node has their column sums.
  std::int64_t tile_sums_begin, tile_sums;
  std::size_t bias_begin;  // in bytes
  std::size_t bytes;
};

}  // namespace plimsoll::cuda
