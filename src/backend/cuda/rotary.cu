// rotary_table and rotary: a thread takes an angle of a row, for all its heads.
#include <cmath>

#include "backend/cuda/launch.h"
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Calls function(row, angle) for the real rows, spread over the grid.
template <typename Function>
__device__ void for_each_angle(const Rows& rows, std::int64_t half, const Function& function) {
  const std::int64_t work = rows.real() * half, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < work; at += stride) {
    function(at / half, at % half);
  }
}

__global__ void rotary_table(const std::int32_t* positions, const float* frequencies, float* table, Rows rows) {
  const std::int64_t half = rows.columns / 2;
  for_each_angle(rows, half, [&](std::int64_t row, std::int64_t j) {
    const float angle = static_cast<float>(positions[row]) * frequencies[j];
    table[row * rows.columns + j] = cosf(angle);
    table[row * rows.columns + half + j] = sinf(angle);
  });
}

// y may lie in x's bytes. `direction`: 1, or -1 back.
template <typename T>
__global__ void rotary(const T* x, const float* table, T* y, Rows rows, std::int64_t width, float direction) {
  const std::int64_t half = width / 2;
  for_each_angle(rows, half, [&](std::int64_t row, std::int64_t j) {
    const float cosine = table[row * width + j], sine = direction * table[row * width + half + j];
    for (std::int64_t at = row * rows.columns + j; at < (row + 1) * rows.columns; at += width) {
      const float first = to_float(x[at]), second = to_float(x[at + half]);
      y[at] = from_float<T>(first * cosine - second * sine);
      y[at + half] = from_float<T>(second * cosine + first * sine);
    }
  });
  clear_tail(y, rows);
}

}  // namespace

std::unique_ptr<Kernel> make_rotary(const Context& context, const Graph& graph, const Node& node) {
  if (node.op == Op::kRotaryTable) {
    return make_launch(0, [&context](const KernelArguments& a) {
      const Rows rows = rows_of(a, a.outputs[0]);
      launch(context.stream(), rotary_table,
             {.blocks = blocks_for(rows.capacity * rows.columns / 2, kThreads), .threads = kThreads},
             input<std::int32_t>(a, 0), input<float>(a, 1), output<float>(a, 0), rows);
    });
  }
  check(node.op == Op::kRotary, "make_rotary knows the op");
  const float direction = std::get<RotaryAttributes>(node.attributes).back ? -1.0F : 1.0F;
  return for_floating(graph.type(node.inputs[0]).dtype, [&]<typename T>(T) {
    return make_launch(0, [&context, direction](const KernelArguments& a) {
      const Rows rows = rows_of(a, a.outputs[0]);
      const std::int64_t width = a.inputs[1].shape()[1];
      launch(context.stream(), rotary<T>,
             {.blocks = blocks_for(rows.capacity * width / 2, kThreads), .threads = kThreads}, input<T>(a, 0),
             input<float>(a, 1), output<T>(a, 0), rows, width, direction);
    });
  });
}

}  // namespace plimsoll::cuda
