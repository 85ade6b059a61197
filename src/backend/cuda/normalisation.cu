// layer_norm, affine, layer_norm_grad: a warp a row, each lane neighbours of one pack at a time; a row is
// read twice from the cache, once for the mean and once for the squares around it, as the reference does. Sums over
// rows are taken in blocks of rows whose number does not depend on the device, then over the blocks in order, so that
// they repeat bit for bit. The gradient reads a row once, if a warp can hold it.
#include "backend/cuda/packs.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sums.h"

namespace plimsoll::cuda {
namespace {

// function(first column) for each of the lane's packs in a row.
template <int N, typename Function>
__device__ void for_each_pack_of_row(std::int64_t width, const Function& function) {
  for (std::int64_t c = lane_index() * N; c < width; c += kWarp * N) function(c);
}

// y is computed from the rounded `normalized`, so that it agrees with what is stored.
template <int N, typename T>
__device__ void store_affine(const float (&normalized)[N], const float* gamma, const float* beta, T* y) {
  float scale[N], shift[N], sum[N];
  load(gamma, N, scale);
  load(beta, N, shift);
  for (int i = 0; i < N; ++i) sum[i] = fmaf(to_float(from_float<T>(normalized[i])), scale[i], shift[i]);
  store(sum, N, y);
}

template <int N, typename T>
__global__ void layer_norm(const T* x, const float* gamma, const float* beta, T* y, T* normalized, float* rstd,
                           Rows rows, float eps) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const T* const from = x + row * width;
    float sum = 0;
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float each[N];
      load(from + c, N, each);
      for (const float value : each) sum += value;
    });
    const auto elements = static_cast<float>(width);
    const float mean = warp_sum(sum) / elements;
    float away = 0, squares = 0;
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float each[N];
      load(from + c, N, each);
      for (const float value : each) {
        away += value - mean;
        squares += (value - mean) * (value - mean);
      }
    });
    // This is what rounding left between the mean and that number (Chan, Golub, LeVeque 1983, the corrected two-pass
    // algorithm); no float may hold their sum. In the sum of squares it is less than the rounding.
    away = warp_sum(away) / elements;
    const float inverse_sigma = 1.0F / sqrtf(warp_sum(squares) / elements + eps);
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float z[N];
      load(from + c, N, z);
      for (float& value : z) value = (value - mean - away) * inverse_sigma;
      store(z, N, normalized + row * width + c);
      store_affine(z, gamma + c, beta + c, y + row * width + c);
    });
    if (lane_index() == 0) rstd[row] = inverse_sigma;
  }
}

template <int N, typename T>
__global__ void affine(const T* x, const float* gamma, const float* beta, T* y, Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float z[N];
      load(x + row * width + c, N, z);
      if (beta == nullptr) {
        float scale[N];
        load(gamma + c, N, scale);
        for (int i = 0; i < N; ++i) z[i] *= scale[i];
        store(z, N, y + row * width + c);
      } else {
        store_affine(z, gamma + c, beta + c, y + row * width + c);
      }
    });
  }
}

// With g = dy gamma and z = normalized: dx = rstd (g - mean(g) - z mean(g z)). dx may lie in dy's or normalized's
// bytes; partial[block][2][width] gets the sums over the block's rows of dy z and of dy.
//
// A warp takes every eighth of the block's rows, whole, in kPacks packs a lane.
template <int N, int kPacks, typename T>
__global__ void __launch_bounds__(kRowThreads)
    layer_norm_backward(const T* dy, const T* normalized, const float* rstd, const float* gamma, T* dx, float* partial,
                        Rows rows) {
  PLIMSOLL_SHARED float parts[kRowWarps][2][kWarp * N];
  const std::int64_t width = rows.columns, real = rows.real(), first = blockIdx.x * kSumRows;
  const std::int64_t end = first + kSumRows < real ? first + kSumRows : real;
  const unsigned warp = threadIdx.x / kWarp;
  const auto column = [](int p) { return (static_cast<std::int64_t>(p) * kWarp + lane_index()) * N; };
  float scale[kPacks][N] = {}, sum_dyz[kPacks][N] = {}, sum_dy[kPacks][N] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) < width) load(gamma + column(p), N, scale[p]);
  }
  for (std::int64_t row = first + warp; row < end; row += kRowWarps) {
    float d[kPacks][N] = {}, z[kPacks][N] = {};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) >= width) continue;
      load(dy + row * width + column(p), N, d[p]);
      load(normalized + row * width + column(p), N, z[p]);
    }
    float sum_g = 0, sum_gz = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum_dyz[p][i] += d[p][i] * z[p][i];
        sum_dy[p][i] += d[p][i];
        d[p][i] *= scale[p][i];
        sum_g += d[p][i];
        sum_gz += d[p][i] * z[p][i];
      }
    }
    const float mean_g = warp_sum(sum_g) / static_cast<float>(width);
    const float mean_gz = warp_sum(sum_gz) / static_cast<float>(width);
    const float of_row = rstd[row];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) d[p][i] = of_row * (d[p][i] - mean_g - z[p][i] * mean_gz);
      if (column(p) < width) store(d[p], N, dx + row * width + column(p));
    }
  }
  float* const to = partial + static_cast<std::int64_t>(blockIdx.x) * 2 * width;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      parts[warp][0][lane_index() * N + i] = sum_dyz[p][i];
      parts[warp][1][lane_index() * N + i] = sum_dy[p][i];
    }
    __syncthreads();
    if (warp < 2 && column(p) < width) {  // a warp for each of the two
      float sums[N];
      for (int i = 0; i < N; ++i) sums[i] = parts[0][warp][lane_index() * N + i];
      for (unsigned part = 1; part < kRowWarps; ++part) {
        for (int i = 0; i < N; ++i) sums[i] += parts[part][warp][lane_index() * N + i];
      }
      store(sums, N, to + warp * width + column(p));
    }
    __syncthreads();
  }
}

// The same dx of rows that no warp can hold, which another kernel sums before.
template <int N, typename T>
__global__ void layer_norm_input_grad(const T* dy, const T* normalized, const float* rstd, const float* gamma, T* dx,
                                      Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const auto load_both = [&](std::int64_t c, float(&g)[N], float(&z)[N]) {
      float scale[N];
      load(dy + row * width + c, N, g);
      load(normalized + row * width + c, N, z);
      load(gamma + c, N, scale);
      for (int i = 0; i < N; ++i) g[i] *= scale[i];
    };
    float sum_g = 0, sum_gz = 0;
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float g[N], z[N];
      load_both(c, g, z);
      for (int i = 0; i < N; ++i) {
        sum_g += g[i];
        sum_gz += g[i] * z[i];
      }
    });
    const float mean_g = warp_sum(sum_g) / static_cast<float>(width);
    const float mean_gz = warp_sum(sum_gz) / static_cast<float>(width);
    const float scale = rstd[row];
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float g[N], z[N];
      load_both(c, g, z);
      for (int i = 0; i < N; ++i) g[i] = scale * (g[i] - mean_g - z[i] * mean_gz);
      store(g, N, dx + row * width + c);
    });
  }
}

// partial[block][2][width]: sums over the block's rows of dy z and of dy.
template <int N, typename T>
__global__ void layer_norm_partial_sums(const T* dy, const T* normalized, float* partial, Rows rows) {
  const std::int64_t width = rows.columns;
  sum_rows_of_block<2, N>(rows, kSumRows, partial + static_cast<std::int64_t>(blockIdx.x) * 2 * width,
                          [&](std::int64_t row, std::int64_t c, float(&sums)[2][N]) {
                            float each[N], z[N];
                            load(dy + row * width + c, N, each);
                            load(normalized + row * width + c, N, z);
                            for (int i = 0; i < N; ++i) {
                              sums[0][i] += each[i] * z[i];
                              sums[1][i] += each[i];
                            }
                          });
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
    for_pack<T>(rows.columns, [&](auto pack) {
      launch(context.stream(), layer_norm<pack(), T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             input<T>(a, 0), input<float>(a, 1), input<float>(a, 2), output<T>(a, 0), output<T>(a, 1),
             output<float>(a, 2), rows, eps);
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> make_affine(const Context& context) {
  return make_launch(0, [&context](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    for_pack<T>(rows.columns, [&](auto pack) {
      launch(context.stream(), affine<pack(), T>, {.blocks = row_blocks(rows.capacity), .threads = kRowThreads},
             input<T>(a, 0), input<float>(a, 1), a.inputs.size() > 2 ? input<float>(a, 2) : nullptr, output<T>(a, 0),
             rows);
    });
  });
}

// make(packs), packs() being a number of packs of N that hold a row of `width` elements.
template <int N, typename Make>
void for_packs_of_row(std::int64_t width, const Make& make) {
  constexpr int kMost = 1024 / (static_cast<int>(kWarp) * N);
  const auto packs = (width + kWarp * N - 1) / (kWarp * N);
  if (2 * packs <= kMost) {
    make(std::integral_constant<int, kMost / 2>{});
  } else if (4 * packs <= 3 * kMost) {
    make(std::integral_constant<int, 3 * kMost / 4>{});
  } else {
    make(std::integral_constant<int, kMost>{});
  }
}

template <typename T>
std::unique_ptr<Kernel> make_layer_norm_grad(const Context& context, const TensorType& dy) {
  const std::int64_t blocks = row_sum_blocks(dy.shape[0]), width = dy.shape[1];
  return make_launch(layer_norm_grad_scratch_bytes(dy), [&context, blocks, width](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    auto* const partial = reinterpret_cast<float*>(a.scratch.data());
    for_pack<T>(width, [&](auto pack) {
      constexpr int N = pack();
      const Launch tiles{.blocks = static_cast<unsigned>(blocks), .threads = kRowThreads};
      if constexpr (N > 1) {
        if (holds_rows(width)) {
          for_packs_of_row<N>(width, [&](auto packs) {
            launch(context.stream(), layer_norm_backward<N, packs(), T>, tiles, input<T>(a, 0), input<T>(a, 1),
                   input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), partial, rows);
          });
        }
      }
      if (!holds_rows(width)) {
        Launch columns = tiles;
        columns.blocks_y = column_blocks(width / N);
        launch(context.stream(), layer_norm_partial_sums<N, T>, columns, input<T>(a, 0), input<T>(a, 1), partial, rows);
        launch(context.stream(), layer_norm_input_grad<N, T>,
               {.blocks = row_blocks(rows.capacity), .threads = kRowThreads}, input<T>(a, 0), input<T>(a, 1),
               input<float>(a, 2), input<float>(a, 3), output<T>(a, 0), rows);
      }
      launch(context.stream(), layer_norm_whole_sums, {.blocks = column_blocks(2 * width), .threads = kRowThreads},
             partial, blocks, output<float>(a, 1), output<float>(a, 2), width);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_normalisation(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  return for_floating(first.dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kLayerNorm) {
      return make_layer_norm<T>(context, std::get<LayerNormAttributes>(node.attributes).eps);
    }
    if (node.op == Op::kAffine) return make_affine<T>(context);
    check(node.op == Op::kLayerNormGrad, "make_normalisation knows the op");
    return make_layer_norm_grad<T>(context, first);
  });
}

}  // namespace plimsoll::cuda
