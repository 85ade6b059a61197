// cached_attention: a warp takes a head of a row, and walks over the rows of the table that it sees, one after the
// other; a lane has every 32nd column. When a larger score comes, the sums so far are scaled down.
#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/attention.h"
#include "graph/attention_form.h"

namespace plimsoll::cuda {
namespace {

constexpr int kParts = kMostHeadSize / kWarp;  // columns per lane

struct CachedHeads {
  std::int64_t heads, group, width, stride;  // stride: columns of a table
  float scale;
};

template <typename T>
__global__ void cached_attention(const T* q, const T* keys, const T* values, const std::int32_t* seen, T* y, Rows rows,
                                 CachedHeads h) {
  const std::int64_t items = rows.real() * h.heads;
  for (std::int64_t item = first_row(); item < items; item += row_stride()) {
    const std::int64_t row = item / h.heads, shared = item % h.heads / h.group * h.width;
    float query[kParts] = {}, sums[kParts] = {}, largest = -INFINITY, whole = 0;
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t c = lane_index() + part * std::int64_t{kWarp};
      if (c < h.width) query[part] = to_float(q[item * h.width + c]) * h.scale;
    }
    for (std::int64_t j = seen[2 * row]; j < seen[2 * row + 1]; ++j) {
      const std::int64_t at = j * h.stride + shared;
      float score = 0;
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t c = lane_index() + part * std::int64_t{kWarp};
        if (c < h.width) score += query[part] * to_float(keys[at + c]);
      }
      score = warp_sum(score);
      const float most = score > largest ? score : largest, kept = expf(largest - most), weight = expf(score - most);
      largest = most;
      whole = whole * kept + weight;
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t c = lane_index() + part * std::int64_t{kWarp};
        if (c < h.width) sums[part] = sums[part] * kept + weight * to_float(values[at + c]);
      }
    }
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t c = lane_index() + part * std::int64_t{kWarp};
      if (c < h.width) y[item * h.width + c] = from_float<T>(sums[part] / whole);
    }
  }
  clear_tail(y, rows);
}

}  // namespace

std::unique_ptr<Kernel> make_cached_attention(const Context& context, const Graph& graph, const Node& node) {
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const Shape q = graph.type(node.inputs[0]).shape;
  const std::int64_t width = q[1] / attributes.heads;
  check(width <= kMostHeadSize, "kernel_scratch_bytes refuses wider heads");
  const CachedHeads heads{.heads = attributes.heads,
                          .group = attributes.heads / key_value_heads(attributes),
                          .width = width,
                          .stride = graph.type(node.inputs[1]).shape[1],
                          .scale = 1.0F / std::sqrt(static_cast<float>(width))};
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) {
    return make_launch(0, [&context, heads](const KernelArguments& a) {
      const Rows rows = rows_of(a, a.inputs[0]);
      launch(context.stream(), cached_attention<T>,
             {.blocks = row_blocks(rows.capacity * heads.heads), .threads = kRowThreads}, input<T>(a, 0),
             input<T>(a, 1), input<T>(a, 2), input<std::int32_t>(a, 3), output<T>(a, 0), rows, heads);
    });
  });
}

}  // namespace plimsoll::cuda
