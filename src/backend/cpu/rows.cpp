// Ops that move rows: embedding, spatial_embedding, visual_embedding, patchify, pack_rows, gather_rows. std::memcpy
// makes the copies, so explicit vectors would gain nothing. Row counts are those of the output.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "backend/cpu/decode.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/spatial.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kRowGrain = 16;

std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

std::size_t row_bytes(const TensorView& view, std::int64_t width) {
  return static_cast<std::size_t>(width) * dtype_bytes(view.dtype());
}

// A kernel that calls row(arguments, row number) for each real row of its first output.
template <typename Row>
std::unique_ptr<Kernel> make_row_kernel(const Graph& graph, const Node& node, Row row) {
  const std::int64_t capacity = graph.type(node.outputs[0]).shape[0];
  return make_kernel([=](const KernelArguments& a) {
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) row(a, i);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_embedding(const Graph& graph, const Node& node) {
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  if (is_coded(graph.type(node.inputs[0]).dtype)) {
    return make_row_kernel(graph, node, [width](const KernelArguments& a, std::int64_t row) {
      const TensorView& table = a.inputs[0];
      decode_rows(table.dtype(), table.raw(), width, a.inputs[1].data<std::int32_t>()[row], 1, 0, width,
                  element(a.outputs[0], row * width), DType::kF32);
    });
  }
  return make_row_kernel(graph, node, [width](const KernelArguments& a, std::int64_t row) {
    const std::int64_t id = a.inputs[1].data<std::int32_t>()[row];
    std::memcpy(element(a.outputs[0], row * width), element(a.inputs[0], id * width), row_bytes(a.inputs[0], width));
  });
}

std::unique_ptr<Kernel> make_spatial_embedding(const Graph& graph, const Node& node) {
  const auto& attributes = std::get<SpatialAttributes>(node.attributes);
  const std::int64_t table_rows = attributes.table_rows, coordinate = attributes.coordinate_size,
                     size = attributes.shape_size;
  if (attributes.sums) {
    return make_row_kernel(graph, node, [=](const KernelArguments& a, std::int64_t row) {
      float* const y = a.outputs[0].data<float>() + row * coordinate;
      const float* from[6];
      std::size_t slot = 0;
      for (const SpatialLookup& lookup : spatial_lookups(a.inputs[4].data<std::int32_t>() + 4 * row, table_rows)) {
        from[slot++] = a.inputs[lookup.table].data<float>() + lookup.row * coordinate;
      }
      for (std::int64_t c = 0; c < coordinate; ++c) {
        y[c] = from[0][c] + from[1][c] + from[2][c] + from[3][c] + from[4][c] + from[5][c];
      }
    });
  }
  return make_row_kernel(graph, node, [=](const KernelArguments& a, std::int64_t row) {
    float* y = a.outputs[0].data<float>() + row * (4 * coordinate + 2 * size);
    for (const SpatialLookup& lookup : spatial_lookups(a.inputs[4].data<std::int32_t>() + 4 * row, table_rows)) {
      const std::int64_t width = lookup.table < 2 ? coordinate : size;
      std::memcpy(y, a.inputs[lookup.table].data<float>() + lookup.row * width, float_bytes(width));
      y += width;
    }
  });
}

std::unique_ptr<Kernel> make_visual_embedding(const Graph& graph, const Node& node) {
  const std::int64_t visual = graph.type(node.inputs[2]).shape[1], width = graph.type(node.inputs[2]).shape[2];
  return make_row_kernel(graph, node, [=](const KernelArguments& a, std::int64_t row) {
    const std::int64_t sample = row / visual, token = row % visual;
    const float* const source = token == 0 ? a.inputs[1].data<float>()
                                           : a.inputs[0].data<float>() + (sample * (visual - 1) + token - 1) * width;
    const float* const position = a.inputs[2].data<float>() + token * width;
    float* const y = a.outputs[0].data<float>() + row * width;
    for (std::int64_t i = 0; i < width; ++i) y[i] = source[i] + position[i];
  });
}

std::unique_ptr<Kernel> make_patchify(const Graph& graph, const Node& node) {
  const Shape shape = graph.type(node.inputs[0]).shape;
  const std::int64_t size = std::get<PatchAttributes>(node.attributes).patch_size;
  const std::int64_t channels = shape[1], height = shape[2], image_width = shape[3];
  const std::int64_t across = image_width / size, patches = height / size * across;
  return make_row_kernel(graph, node, [=](const KernelArguments& a, std::int64_t row) {
    const std::int64_t sample = row / patches, top = row % patches / across * size, left = row % across * size;
    float* to = a.outputs[0].data<float>() + row * channels * size * size;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const float* const plane = a.inputs[0].data<float>() + (sample * channels + channel) * height * image_width;
      for (std::int64_t y = top; y < top + size; ++y, to += size) {
        std::memcpy(to, plane + y * image_width + left, float_bytes(size));
      }
    }
  });
}

std::unique_ptr<Kernel> make_pack_rows(const Graph& graph, const Node& node) {
  const std::int64_t width = graph.type(node.outputs[0]).shape[1];
  return make_row_kernel(graph, node, [width](const KernelArguments& a, std::int64_t row) {
    const std::int64_t source = a.inputs[2].data<std::int32_t>()[row];
    const void* const from =
        source >= 0 ? element(a.inputs[0], source * width) : element(a.inputs[1], (-1 - source) * width);
    std::memcpy(element(a.outputs[0], row * width), from, row_bytes(a.outputs[0], width));
  });
}

std::unique_ptr<Kernel> make_gather_rows(const Graph& graph, const Node& node) {
  const std::int64_t width = graph.type(node.outputs[0]).shape[1];
  return make_row_kernel(graph, node, [width](const KernelArguments& a, std::int64_t row) {
    const std::int64_t index = a.inputs[1].data<std::int32_t>()[row];
    void* const y = element(a.outputs[0], row * width);
    const std::size_t bytes = row_bytes(a.outputs[0], width);
    if (index < 0) {
      std::memset(y, 0, bytes);
    } else {
      std::memcpy(y, element(a.inputs[0], index * width), bytes);
    }
  });
}

}  // namespace plimsoll
