// layer_norm, layer_norm_affine, layer_norm_grad: a warp a row; a row is read twice from the cache, once for the mean
// and once for the squares around it, as the reference does. Sums over rows are taken in blocks of rows whose number
// does not depend on the device, then over the blocks in order, so that they repeat bit for bit.
#include "backend/cuda/rows.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int64_t kSumRows = 64;  // rows a block sums in layer_norm_grad

// What is stored and what is computed from it are the same: y comes from the rounded `normalized`.
template <typename T>
__device__ T affine(T normalized, float gamma, float beta) {
  return from_float<T>(fmaf(to_float(normalized), gamma, beta));
}

template <typename T>
__global__ void layer_norm(const T* x, const float* gamma, const float* beta, T* y, T* normalized, float* rstd,
                           Rows rows, float eps) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const T* const from = x + row * width;
    float sum = 0;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) sum += to_float(from[c]);
    const float mean = warp_sum(sum) / static_cast<float>(width);
    float squares = 0;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      const float away = to_float(from[c]) - mean;
      squares += away * away;
    }
    const float inverse_sigma = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(width) + eps);
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      const T z = from_float<T>((to_float(from[c]) - mean) * inverse_sigma);
      normalized[row * width + c] = z;
      y[row * width + c] = affine(z, gamma[c], beta[c]);
    }
    if (lane_index() == 0) rstd[row] = inverse_sigma;
  }
}

template <typename T>
__global__ void layer_norm_affine(const T* normalized, const float* gamma, const float* beta, T* y, Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      y[row * width + c] = affine(normalized[row * width + c], gamma[c], beta[c]);
    }
  }
}

// With g = dy gamma and z = normalized: dx = rstd (g - mean(g) - z mean(g z)). dx may lie in dy's or normalized's
// bytes, which the sums over rows have read by then.
template <typename T>
__global__ void layer_norm_input_grad(const T* dy, const T* normalized, const float* rstd, const float* gamma, T* dx,
                                      Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const T *const dy_row = dy + row * width, *const z_row = normalized + row * width;
    float sum_g = 0, sum_gz = 0;
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      const float g = to_float(dy_row[c]) * gamma[c];
      sum_g += g;
      sum_gz += g * to_float(z_row[c]);
    }
    const float mean_g = warp_sum(sum_g) / static_cast<float>(width);
    const float mean_gz = warp_sum(sum_gz) / static_cast<float>(width);
    const float scale = rstd[row];
    for (std::int64_t c = lane_index(); c < width; c += kWarp) {
      const float g = to_float(dy_row[c]) * gamma[c];
      dx[row * width + c] = from_float<T>(scale * (g - mean_g - to_float(z_row[c]) * mean_gz));
    }
  }
}

// partial[block][2][width]: sums over the block's rows of dy z and of dy, a thread a column.
template <typename T>
__global__ void layer_norm_partial_sums(const T* dy, const T* normalized, float* partial, Rows rows) {
  const std::int64_t width = rows.columns, first = blockIdx.x * kSumRows;
  const std::int64_t real = rows.real(), end = first + kSumRows < real ? first + kSumRows : real;
  float* const sums = partial + static_cast<std::int64_t>(blockIdx.x) * 2 * width;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kRowThreads + threadIdx.x; c < width;
       c += static_cast<std::int64_t>(gridDim.y) * kRowThreads) {
    float dgamma = 0, dbeta = 0;
    for (std::int64_t row = first; row < end; ++row) {
      const float each = to_float(dy[row * width + c]);
      dgamma += each * to_float(normalized[row * width + c]);
      dbeta += each;
    }
    sums[c] = dgamma;
    sums[width + c] = dbeta;
  }
}

__global__ void layer_norm_whole_sums(const float* partial, std::int64_t blocks, float* dgamma, float* dbeta,
                                      std::int64_t width) {
  sum_columns(partial, blocks, 2 * width,
              [&](std::int64_t c, float sum) { (c < width ? dgamma[c] : dbeta[c - width]) = sum; });
}

template <typename T>
std::unique_ptr<Kernel> make_layer_norm(const Context& context, double eps) {
  return make_launch(0, [&context, eps = static_cast<float>(eps)](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    launch(context.stream(), layer_norm<T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
           input<T>(a, 0), input<float>(a, 1), input<float>(a, 2), output<T>(a, 0), output<T>(a, 1),
           output<float>(a, 2), rows, eps);
  });
}

template <typename T>
std::unique_ptr<Kernel> make_layer_norm_affine(const Context& context) {
  return make_launch(0, [&context](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    launch(context.stream(), layer_norm_affine<T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
           input<T>(a, 0), input<float>(a, 1), input<float>(a, 2), output<T>(a, 0), rows);
  });
}

template <typename T>
std::unique_ptr<Kernel> make_layer_norm_grad(const Context& context, const TensorType& dy) {
  const std::int64_t blocks = (dy.shape[0] + kSumRows - 1) / kSumRows, width = dy.shape[1];
  const auto scratch = static_cast<std::size_t>(2 * blocks * width) * sizeof(float);
  return make_launch(scratch, [&context, blocks, width](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<float*>(a.scratch.data());
    const unsigned columns = blocks_for(width, kRowThreads);
    launch(context.stream(), layer_norm_partial_sums<T>,
           {.blocks = static_cast<unsigned>(blocks), .threads = kRowThreads, .blocks_y = columns}, input<T>(a, 0),
           input<T>(a, 1), partial, rows);
    launch(context.stream(), layer_norm_whole_sums, {.blocks = column_blocks(2 * width), .threads = kRowThreads},
           partial, blocks, output<float>(a, 1), output<float>(a, 2), width);
    launch(context.stream(), layer_norm_input_grad<T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
           input<T>(a, 0), input<T>(a, 1), input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), rows);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_normalisation(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  return for_floating(first.dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kLayerNorm) {
      return make_layer_norm<T>(context, std::get<LayerNormAttributes>(node.attributes).eps);
    }
    if (node.op == Op::kLayerNormAffine) return make_layer_norm_affine<T>(context);
    check(node.op == Op::kLayerNormGrad, "make_normalisation knows the op");
    return make_layer_norm_grad<T>(context, first);
  });
}

}  // namespace plimsoll::cuda
