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
  static constexpr int kMost = 64;
  std::int32_t bins = 0, exact = 0, steps = 0;
  std::int32_t saturated = 0;     // distances from here on fall into the last bin
  std::int32_t edge[kMost] = {};  // the distance from which on bin exact + 1 + i takes over
  std::int32_t first = 0;         // bins of the tables before this one

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
  std::int32_t samples = 0;
  float scale = 0, scale2 = 0;
  bool aligned = false;  // rows of a head begin at 16 bytes and fill the tile's width
  bool drops = false;
  std::uint32_t site = 0, upper_threshold = 0;  // the threshold in the upper half
  float keep_scale = 1;
  BucketEdges edges[kTables];

  constexpr std::int64_t stride() const { return std::int64_t{heads} * head_size; }
  // Entries of the look-up tables that a block makes of the three bias tables, one a distance.
  constexpr int distances() const {
    return 2 * (edges[0].saturated + edges[1].saturated + edges[2].saturated) + kTables;
  }
  constexpr int all_bins() const { return edges[0].bins + edges[1].bins + edges[2].bins; }
};

inline constexpr std::int32_t kMostHeadSize = 128;

// From the node's attributes. Throws EnvironmentError where a head is wider, or a table has more bins, than the kernels
// take.
AttentionShape attention_shape(const Graph& graph, const Node& node);

// Rows of a sample and head that a block of the kernels takes, 16 a warp; `is_half`: q is of BF16 or F16.
constexpr int attention_block_rows(bool is_half) { return is_half ? 64 : 32; }

// The places in scratch of what attention_grad leaves for its later kernels: floats, one part behind the other.
struct AttentionGradScratch {
  AttentionGradScratch(const Graph& graph, const Node& node, const AttentionShape& shape);

  std::int64_t row_sums;  // [rows][heads], three times; five times with gradients of the bias tables
  std::int64_t slots;     // partial sums of each bin of a table, one for each block of rows
  std::int64_t partials;  // [heads][bins][slots]
  std::size_t bytes;
};

}  // namespace plimsoll::cuda
