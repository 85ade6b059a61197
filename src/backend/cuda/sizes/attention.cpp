#include "backend/cuda/sizes/attention.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/dropout.h"
#include "base/error.h"
#include "graph/partial_sums.h"
#include "graph/relative_bucket.h"

namespace plimsoll::cuda {

void refuse_wide_heads(const Node& node, std::int64_t head_size) {
  if (head_size <= kMostHeadSize) return;
  throw EnvironmentError({.what = "a head of attention has more columns than the GPU's kernels take",
                          .where = node.name,
                          .found = std::to_string(head_size),
                          .allowed = "at most " + std::to_string(kMostHeadSize),
                          .remedy = "--device cpu, or a model with narrower heads (hidden_size / "
                                    "num_attention_heads)"});
}

AttentionShape attention_shape(const Graph& graph, const Node& node) {
  const AttentionAttributes& attributes = attention_attributes(node);
  AttentionShape shape;
  shape.form = attention_form(node);
  const std::int64_t rows = graph.type(node.inputs[shape.form.key_mask()]).shape[0];
  shape.heads = static_cast<std::int32_t>(attributes.heads);
  shape.group = static_cast<std::int32_t>(attributes.heads / key_value_heads(attributes));
  shape.causal = attributes.causal;
  if (node.op != Op::kAttentionBias) {
    shape.head_size = static_cast<std::int32_t>(graph.type(node.inputs[shape.form.q()]).shape[1] / attributes.heads);
  }
  refuse_wide_heads(node, shape.head_size);
  shape.samples = static_cast<std::int32_t>(graph.type(node.inputs[shape.form.sample_offsets()]).shape[0] - 1);
  const double scale = 1.0 / std::sqrt(std::max(1.0, static_cast<double>(shape.head_size)));
  shape.scale = static_cast<float>(scale);
  shape.scale2 = static_cast<float>(scale * kLog2E);
  shape.drops = attributes.dropout_p > 0;
  shape.site = attributes.site;
  shape.longest = longest_sample(attributes, rows);
  if (shape.form.tables() > 0) {
    shape.bias_stride = static_cast<std::int32_t>(attention_bias_keys(attributes, rows));  // whole 16 bytes
  }
  if (shape.drops) {
    shape.threshold = dropout_threshold(attributes.dropout_p);
    shape.upper_threshold = shape.threshold << 16;
    shape.keep_scale = static_cast<float>(dropout_scale(attributes.dropout_p));
  }
  std::int32_t first = 0, distances = 0;
  const auto number_distances = [&](BucketEdges& edges) {
    edges.low = distances;
    edges.high = distances + 2 * edges.saturated;
    distances = edges.high + 1;
  };
  for (std::size_t table = 0; table < kTables; ++table) {
    BucketEdges& edges = shape.edges[table];
    edges.first = first;
    if (!shape.form.has_bias[table]) {
      number_distances(edges);
      continue;
    }
    const auto distance =
        static_cast<std::int32_t>(table == 0 ? attributes.max_position_distance : attributes.max_spatial_distance);
    edges.bins = static_cast<std::int32_t>(graph.type(node.inputs[shape.form.table(table)]).shape[1]);
    first += edges.bins;
    const std::int32_t half = edges.bins / 2;
    edges.exact = half / 2;
    edges.saturated = edges.exact;
    if (half - edges.exact - 1 > BucketEdges::kMost) {
      throw EnvironmentError({.what = "a bias table of attention has more bins than the GPU's kernels take",
                              .where = node.name,
                              .found = std::to_string(edges.bins),
                              .allowed = "at most " + std::to_string(4 * BucketEdges::kMost + 4),
                              .remedy = "--device cpu, or a model with fewer rel_pos_bins and rel_2d_pos_bins"});
    }
    for (std::int32_t d = edges.exact; edges.steps < half - edges.exact - 1 && d <= distance; ++d) {
      const std::int32_t bin = relative_bucket(-d, edges.bins, distance);
      for (; edges.steps < bin - edges.exact; ++edges.steps) edges.edge[edges.steps] = edges.saturated = d;
    }
    number_distances(edges);
  }
  return shape;
}

std::size_t attention_bias_bytes(const Graph& graph, const Node& node, const AttentionShape& shape) {
  if (shape.form.made_biases) return 0;
  const TensorType& q = graph.type(node.inputs[shape.form.q()]);
  return bytes_of(q.dtype, q.shape[0] * shape.heads * shape.bias_stride);
}

AttentionGradScratch::AttentionGradScratch(const Graph& graph, const Node& node, const AttentionShape& shape) {
  const TensorType& q = graph.type(node.inputs[1]);
  const bool of_tables = std::get<AttentionAttributes>(node.attributes).table_gradients;
  const std::int64_t rows = q.shape[0], block_rows = attention_block_rows(is_half(q.dtype));
  row_sums = rows * shape.heads;
  tiles = rows / 16 + shape.samples;
  slots = rows / block_rows + shape.samples + 1;
  turns = 1 + std::int64_t{shape.samples} * shape.heads * ((shape.longest + 15) / 16);
  partials = of_tables ? shape.heads * shape.all_bins() * slots : 0;
  dq_sums = tiles * 16 * shape.heads * attention_tile_width(shape.head_size);
  const std::int64_t before = (of_tables ? 5 : 3) * row_sums + turns + partials;
  dq_begin = (before + 3) / 4 * 4;
  shared_begin = dq_begin + dq_sums;
  shared_sums = shape.group > 1 ? 2 * rows * shape.stride() : 0;
  tile_sums_begin = shared_begin + shared_sums;
  tile_sums = summed_outputs(node) && partial_sums(node) == 0 ? tiles * 3 * shape.stride() : 0;
  bias_begin = static_cast<std::size_t>((tile_sums_begin + tile_sums + 3) / 4 * 4) * sizeof(float);
  bytes = bias_begin + attention_bias_bytes(graph, node, shape);
}

}  // namespace plimsoll::cuda
