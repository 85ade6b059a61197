// rms_norm and its gradient: a warp takes a group of a row.
#include "backend/cuda/column_sums.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sizes.h"
#include "backend/cuda/sizes/sums.h"
#include "backend/scratch.h"

namespace plimsoll::cuda {
namespace {

// Rows of `groups` groups each, of `width` columns.
struct Groups {
  Rows rows;
  std::int64_t groups, width;

  __device__ std::int64_t real() const { return rows.real() * groups; }
};

template <int N, typename Function>
__device__ void for_each_pack(std::int64_t width, const Function& function) {
  for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) function(c);
}

// normalized may lie in x's bytes. y is computed from the rounded `normalized`.
template <int N, typename T>
__global__ void rms_norm(const T* x, const float* gamma, T* y, T* normalized, float* rstd, Groups of, float eps) {
  const std::int64_t count = of.real();
  for (std::int64_t group = first_row(); group < count; group += row_stride()) {
    const std::int64_t at = group * of.width;
    float squares = 0;
    for_each_pack<N>(of.width, [&](std::int64_t c) {
      float z[N];
      load(x + at + c, N, z);
      for (const float value : z) squares += value * value;
    });
    const float inverse = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(of.width) + eps);
    for_each_pack<N>(of.width, [&](std::int64_t c) {
      float z[N], scale[N];
      load(x + at + c, N, z);
      load(gamma + c, N, scale);
      for (float& value : z) value = to_float(from_float<T>(value * inverse));
      store(z, N, normalized + at + c);
      for (int i = 0; i < N; ++i) z[i] *= scale[i];
      store(z, N, y + at + c);
    });
    if (lane_index() == 0) rstd[group] = inverse;
  }
  clear_tail(y, of.rows);
  clear_tail(normalized, of.rows);
}

// With g = dy gamma and z = normalized: dx = rstd (g - z mean(g z)). dx may lie in dy's or normalized's bytes.
template <int N, typename T>
__global__ void rms_norm_input_grad(const T* dy, const T* normalized, const float* rstd, const float* gamma, T* dx,
                                    Groups of) {
  const std::int64_t count = of.real();
  for (std::int64_t group = first_row(); group < count; group += row_stride()) {
    const std::int64_t at = group * of.width;
    const auto load_both = [&](std::int64_t c, float(&g)[N], float(&z)[N]) {
      float scale[N];
      load(dy + at + c, N, g);
      load(normalized + at + c, N, z);
      load(gamma + c, N, scale);
      for (int i = 0; i < N; ++i) g[i] *= scale[i];
    };
    float products = 0;
    for_each_pack<N>(of.width, [&](std::int64_t c) {
      float g[N], z[N];
      load_both(c, g, z);
      for (int i = 0; i < N; ++i) products += g[i] * z[i];
    });
    const float mean = warp_sum(products) / static_cast<float>(of.width), scale = rstd[group];
    for_each_pack<N>(of.width, [&](std::int64_t c) {
      float g[N], z[N];
      load_both(c, g, z);
      for (int i = 0; i < N; ++i) g[i] = scale * (g[i] - z[i] * mean);
      store(g, N, dx + at + c);
    });
  }
  clear_tail(dx, of.rows);
}

// partial[block][columns of a row] gets the sums over the block's rows of dy z.
template <int N, typename T>
__global__ void rms_norm_partial_sums(const T* dy, const T* normalized, float* partial, Rows rows) {
  sum_rows_of_block<1, N>(rows, kSumRows, partial + static_cast<std::int64_t>(blockIdx.x) * rows.columns,
                          [&](std::int64_t row, std::int64_t c, float(&sums)[1][N]) {
                            float each[N], z[N];
                            load(dy + row * rows.columns + c, N, each);
                            load(normalized + row * rows.columns + c, N, z);
                            for (int i = 0; i < N; ++i) sums[0][i] += each[i] * z[i];
                          });
}

__global__ void rms_norm_whole_sums(const float* partial, float* dgamma, Groups of) {
  sum_columns(partial, row_sum_blocks(of.rows.real()) * of.groups, of.width,
              [&](std::int64_t c, float sum) { dgamma[c] = sum; });
}

Groups groups_of(const KernelArguments& a, const TensorView& rows, std::int64_t width) {
  const Rows all = rows_of(a, rows);
  return {all, all.columns / width, width};
}

template <typename T>
std::unique_ptr<Kernel> make_forward(const Context& context, double eps) {
  return make_launch(0, [&context, eps](const KernelArguments& a) {
    const Groups of = groups_of(a, a.inputs[0], a.inputs[1].elements());
    for_pack<T>(of.width, [&](auto pack) {
      launch(context.stream(), rms_norm<pack(), T>,
             {.blocks = row_blocks(of.rows.capacity * of.groups), .threads = kRowThreads}, input<T>(a, 0),
             input<float>(a, 1), output<T>(a, 0), output<T>(a, 1), output<float>(a, 2), of, static_cast<float>(eps));
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> make_backward(const Context& context, const Graph& graph, const Node& node) {
  return make_launch(kernel_scratch_bytes(graph, node), [&context,
                                                         place = PartialPlace(graph, node)](const KernelArguments& a) {
    const Groups of = groups_of(a, a.inputs[0], a.inputs[3].elements());
    float* const partial = place.of(a);
    for_pack<T>(of.width, [&](auto pack) {
      launch(context.stream(), rms_norm_partial_sums<pack(), T>,
             {.blocks = place.blocks(a), .threads = kRowThreads, .blocks_y = column_blocks(of.rows.columns / pack())},
             input<T>(a, 0), input<T>(a, 1), partial, of.rows);
      launch(context.stream(), rms_norm_input_grad<pack(), T>,
             {.blocks = row_blocks(of.rows.capacity * of.groups), .threads = kRowThreads}, input<T>(a, 0),
             input<T>(a, 1), input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), of);
    });
    if (place.is_output()) return;
    launch(context.stream(), rms_norm_whole_sums, {.blocks = column_blocks(of.width), .threads = kColumnThreads},
           partial, output<float>(a, 1), of);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& rows = graph.type(node.inputs[0]);
  return for_floating(rows.dtype, [&]<typename T>(T) {
    if (node.op == Op::kRmsNorm) {
      return make_forward<T>(context, std::get<RmsNormAttributes>(node.attributes).eps);
    }
    check(node.op == Op::kRmsNormGrad, "make_rms_norm knows the op");
    return make_backward<T>(context, graph, node);
  });
}

}  // namespace plimsoll::cuda
