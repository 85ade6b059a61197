// layer_norm, affine, layer_norm_grad: one warp per row, each lane one pack of neighbours at a time; the mean comes
// first, and then the squares around it, as in the reference. A row is read once, if a warp can hold it. Sums over rows
// are taken in blocks of rows whose number does not depend on the device, then over the blocks in order, so that they
// repeat bit for bit.
#include "backend/cuda/column_sums.h"
#include "backend/cuda/packs.h"
#include "backend/cuda/row_dropout.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sizes/sizes.h"
#include "backend/cuda/sizes/sums.h"
#include "graph/layer_norm_form.h"

namespace plimsoll::cuda {
namespace {

// Calls function(first column) for each of the lane's packs in a row.
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

// The row that is normalized: x, or residual + x; x after dropout if there are keys.
template <typename T>
struct NormInput {
  const T *x, *residual;  // residual: nullptr without one
  RowDropout dropout;
  std::int64_t width;

  template <int N>
  __device__ void read(std::int64_t row, std::int64_t c, float (&to)[N]) const {
    load(x + row * width + c, N, to);
    if (residual == nullptr) return;
    if (dropout.row_keys != nullptr) dropout.apply(row, c, to);
    float other[N];
    load(residual + row * width + c, N, other);
    for (int i = 0; i < N; ++i) to[i] += other[i];
  }
};

// (value - mean - away) / sigma. `away` is the rounding error of the mean (Chan, Golub, LeVeque 1983, the corrected
// two-pass algorithm); a float may not be able to hold mean + away. In the sum of squares it is less than the rounding.
struct Spread {
  float mean, away, inverse_sigma;
  __device__ float operator()(float value) const { return (value - mean - away) * inverse_sigma; }
};

// A warp holds a row in kPacks packs per lane.
template <int N, int kPacks, typename T>
__global__ void __launch_bounds__(kRowThreads) layer_norm(NormInput<T> in, const float* gamma, const float* beta, T* y,
                                                          T* normalized, float* rstd, Rows rows, float eps) {
  const std::int64_t width = rows.columns, count = rows.real();
  const auto column = [](int p) { return (static_cast<std::int64_t>(p) * kWarp + lane_index()) * N; };
  const auto elements = static_cast<float>(width);
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    float x[kPacks][N] = {};
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) < width) in.read(row, column(p), x[p]);
      for (const float value : x[p]) sum += value;
    }
    Spread spread{.mean = warp_sum(sum) / elements, .away = 0, .inverse_sigma = 0};
    float away = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) >= width) continue;
      for (const float value : x[p]) {
        away += value - spread.mean;
        squares += (value - spread.mean) * (value - spread.mean);
      }
    }
    spread.away = warp_sum(away) / elements;
    spread.inverse_sigma = 1.0F / sqrtf(warp_sum(squares) / elements + eps);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column(p) >= width) continue;
      for (float& value : x[p]) value = spread(value);
      store(x[p], N, normalized + row * width + column(p));
      store_affine(x[p], gamma + column(p), beta + column(p), y + row * width + column(p));
    }
    if (lane_index() == 0) rstd[row] = spread.inverse_sigma;
  }
  clear_tail(y, rows);
  clear_tail(normalized, rows);
}

// The same for rows that no warp can hold: they are read three times, from the cache.
template <int N, typename T>
__global__ void layer_norm_of_wide_rows(NormInput<T> in, const float* gamma, const float* beta, T* y, T* normalized,
                                        float* rstd, Rows rows, float eps) {
  const std::int64_t width = rows.columns, count = rows.real();
  const auto elements = static_cast<float>(width);
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    float sum = 0;
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float each[N];
      in.read(row, c, each);
      for (const float value : each) sum += value;
    });
    Spread spread{.mean = warp_sum(sum) / elements, .away = 0, .inverse_sigma = 0};
    float away = 0, squares = 0;
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float each[N];
      in.read(row, c, each);
      for (const float value : each) {
        away += value - spread.mean;
        squares += (value - spread.mean) * (value - spread.mean);
      }
    });
    spread.away = warp_sum(away) / elements;
    spread.inverse_sigma = 1.0F / sqrtf(warp_sum(squares) / elements + eps);
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float z[N];
      in.read(row, c, z);
      for (float& value : z) value = spread(value);
      store(z, N, normalized + row * width + c);
      store_affine(z, gamma + c, beta + c, y + row * width + c);
    });
    if (lane_index() == 0) rstd[row] = spread.inverse_sigma;
  }
  clear_tail(y, rows);
  clear_tail(normalized, rows);
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
  clear_tail(y, rows);
}

template <typename T>
struct NormGradient {
  const T *dy, *normalized;
  const float *rstd, *gamma;
  T *dx, *dropped;  // dropped: dx after dropout, or nullptr
  RowDropout dropout;
};

// With g = dy gamma and z = normalized: dx = rstd (g - mean(g) - z mean(g z)). dx may lie in dy's or normalized's
// bytes; partial[block][kSums][width] gets the sums over the block's rows of dy z, of dy, and of the gradient of the
// normalized sum, or of x before dropout.
//
// Two warps take a row, in kPacks packs of four per lane, so that the sums leave registers for enough warps; they read
// the next row, unconverted, while they compute with the current one. The assignment of rows to blocks is fixed, so
// that sums repeat.
template <int kPacks, int kSums, typename T>
__global__ void __launch_bounds__(kRowThreads, kPacks < 4 ? 2 : 1)
    layer_norm_backward(NormGradient<T> of, float* partial, Rows rows) {
  constexpr int N = 4, kLanes = kRowThreads / kNormGradRows;
  static_assert(kLanes == 2 * kWarp && kSums <= kNormGradRows);
  PLIMSOLL_SHARED float parts[kNormGradRows][kSums][kLanes * N];
  PLIMSOLL_SHARED float halves[2][kRowWarps][2];  // of a row's sums of g and g z, alternating
  const std::int64_t width = rows.columns, real = rows.real(), step = kNormGradBlocks * kNormGradRows;
  const unsigned warp = threadIdx.x / kWarp, slot = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const auto column = [&](int p) { return (static_cast<std::int64_t>(p) * kLanes + lane) * N; };
  float sum[kSums][kPacks][N] = {}, scale[kPacks][N] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column(p) < width) load(of.gamma + column(p), N, scale[p]);
  }
  Pack<T, N> next_dy[kPacks], next_normalized[kPacks];
  float next_rstd = 0;
  const auto read = [&](std::int64_t row) {
    next_rstd = row < real ? of.rstd[row] : 0.0F;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int count = row < real && column(p) < width ? N : 0;
      next_dy[p] = read_pack<N>(of.dy + row * width + column(p), count);
      next_normalized[p] = read_pack<N>(of.normalized + row * width + column(p), count);
    }
  };
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kNormGradRows;
  read(begin + slot);
  unsigned turn = 0;
  for (std::int64_t first = begin; first < real; first += step) {
    const std::int64_t row = first + slot;
    Pack<T, N> dy[kPacks], normalized[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      dy[p] = next_dy[p];
      normalized[p] = next_normalized[p];
    }
    const float of_row = next_rstd;
    read(row + step);
    float sum_g = 0, sum_gz = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = to_float(dy[p].at[i]), z = to_float(normalized[p].at[i]), g = d * scale[p][i];
        sum[0][p][i] += d * z;
        sum[1][p][i] += d;
        sum_g += g;
        sum_gz += g * z;
      }
    }
    sum_g = warp_sum(sum_g);
    sum_gz = warp_sum(sum_gz);
    if (lane_index() == 0) {
      halves[turn][warp][0] = sum_g;
      halves[turn][warp][1] = sum_gz;
    }
    __syncthreads();
    const float(&both)[2][2] = reinterpret_cast<const float(&)[2][2]>(halves[turn][2 * slot]);
    const float mean_g = (both[0][0] + both[1][0]) / static_cast<float>(width);
    const float mean_gz = (both[0][1] + both[1][1]) / static_cast<float>(width);
    turn = 1 - turn;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (row >= real || column(p) >= width) continue;
      float d[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d[i] = of_row * (to_float(dy[p].at[i]) * scale[p][i] - mean_g - to_float(normalized[p].at[i]) * mean_gz);
      }
      store(d, N, of.dx + row * width + column(p));
      if (of.dropped != nullptr) {
        of.dropout.apply(row, column(p), d);
        store(d, N, of.dropped + row * width + column(p));
      }
      if constexpr (kSums > 2) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[2][p][i] += d[i];
      }
    }
  }
  clear_tail(of.dx, rows);
  if (of.dropped != nullptr) clear_tail(of.dropped, rows);
  float* const to = partial + static_cast<std::int64_t>(blockIdx.x) * kSums * width;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int which = 0; which < kSums; ++which) {
#pragma unroll
      for (int i = 0; i < N; ++i) parts[slot][which][lane * N + i] = sum[which][p][i];
    }
    __syncthreads();
    if (slot < kSums && column(p) < width) {  // two warps for each of the sums
      float sums[N];
      for (int i = 0; i < N; ++i) sums[i] = parts[0][slot][lane * N + i];
      for (unsigned part = 1; part < kNormGradRows; ++part) {
        for (int i = 0; i < N; ++i) sums[i] += parts[part][slot][lane * N + i];
      }
      store(sums, N, to + slot * width + column(p));
    }
    __syncthreads();
  }
}

// The same for wider rows, without the sums, which other kernels compute.
template <int N, typename T>
__global__ void layer_norm_input_grad(NormGradient<T> of, Rows rows) {
  const std::int64_t width = rows.columns, count = rows.real();
  for (std::int64_t row = first_row(); row < count; row += row_stride()) {
    const auto load_both = [&](std::int64_t c, float(&g)[N], float(&z)[N]) {
      float scale[N];
      load(of.dy + row * width + c, N, g);
      load(of.normalized + row * width + c, N, z);
      load(of.gamma + c, N, scale);
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
    const float scale = of.rstd[row];
    for_each_pack_of_row<N>(width, [&](std::int64_t c) {
      float g[N], z[N];
      load_both(c, g, z);
      for (int i = 0; i < N; ++i) g[i] = scale * (g[i] - mean_g - z[i] * mean_gz);
      store(g, N, of.dx + row * width + c);
      if (of.dropped == nullptr) return;
      of.dropout.apply(row, c, g);
      store(g, N, of.dropped + row * width + c);
    });
  }
  clear_tail(of.dx, rows);
  if (of.dropped != nullptr) clear_tail(of.dropped, rows);
}

// partial[block][2][width] gets the sums over the block's rows of dy z and of dy.
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

// Where the sums over rows go: those of dy z, of dy, and of the gradient of x, or nullptr.
struct NormSums {
  float *dgamma, *dbeta, *of_x;
};
// partial[block][sums][width]
__global__ void layer_norm_whole_sums(const float* partial, std::int64_t blocks, NormSums to, std::int64_t width,
                                      int sums) {
  sum_columns(partial, blocks, sums * width, [&](std::int64_t c, float sum) {
    float* const of = c < width ? to.dgamma : c < 2 * width ? to.dbeta : to.of_x;
    of[c % width] = sum;
  });
}

RowDropout row_dropout(const KernelArguments& a, const LayerNormForm& form, const LayerNormAttributes& attributes) {
  if (!form.drops) return {};
  return {.row_keys = input<std::int32_t>(a, LayerNormForm::kRowKeys),
          .key = input<std::int32_t>(a, LayerNormForm::kDropoutKey),
          .site = attributes.site,
          .threshold = dropout_threshold(attributes.dropout_p),
          .scale = static_cast<float>(dropout_scale(attributes.dropout_p))};
}

// Calls make(packs), where packs() is a number of packs of N that hold a row of `width` elements.
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
std::unique_ptr<Kernel> make_layer_norm(const Context& context, const Node& node) {
  const auto attributes = std::get<LayerNormAttributes>(node.attributes);
  return make_launch(0, [&context, form = layer_norm_form(node), attributes](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    const auto eps = static_cast<float>(attributes.eps);
    const NormInput<T> in{.x = input<T>(a, 0),
                          .residual = form.has_residual ? input<T>(a, LayerNormForm::kResidual) : nullptr,
                          .dropout = row_dropout(a, form, attributes),
                          .width = rows.columns};
    const Launch grid{.blocks = row_blocks(rows.capacity), .threads = kRowThreads};
    const auto start = [&](auto kernel) {
      launch(context.stream(), kernel, grid, in, input<float>(a, 1), input<float>(a, 2), output<T>(a, 0),
             output<T>(a, 1), output<float>(a, 2), rows, eps);
    };
    for_pack<T>(rows.columns, [&](auto pack) {
      constexpr int N = pack();
      if constexpr (N > 1) {
        if (holds_rows(rows.columns)) {
          for_packs_of_row<N>(rows.columns, [&](auto packs) { start(layer_norm<N, packs(), T>); });
          return;
        }
      }
      start(layer_norm_of_wide_rows<N, T>);
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

template <typename T>
std::unique_ptr<Kernel> make_layer_norm_grad(const Context& context, const Graph& graph, const Node& node) {
  const LayerNormForm form = layer_norm_form(node);
  const auto attributes = std::get<LayerNormAttributes>(node.attributes);
  const PartialPlace place(graph, node);
  return make_launch(kernel_scratch_bytes(graph, node), [&context, form, attributes, place](const KernelArguments& a) {
    const Rows rows = rows_of(a, a.inputs[0]);
    const std::int64_t width = rows.columns, blocks = norm_grad_blocks(a.inputs[0].shape()[0], width);
    float* const partial = place.of(a);
    const NormGradient<T> of{.dy = input<T>(a, 0),
                             .normalized = input<T>(a, 1),
                             .rstd = input<float>(a, 2),
                             .gamma = input<float>(a, 3),
                             .dx = output<T>(a, 0),
                             .dropped = form.drops ? output<T>(a, form.of_x()) : nullptr,
                             .dropout = row_dropout(a, form, attributes)};
    NormSums sums{};
    if (!place.is_output()) {
      sums = {.dgamma = output<float>(a, form.dgamma()),
              .dbeta = output<float>(a, form.dbeta()),
              .of_x = form.column_sums ? output<float>(a, form.sums()) : nullptr};
    }
    const Launch tiles{.blocks = static_cast<unsigned>(blocks), .threads = kRowThreads};
    const auto whole_sums = [&](int count) {
      if (place.is_output()) return;
      launch(context.stream(), layer_norm_whole_sums,
             {.blocks = column_blocks(count * width), .threads = kColumnThreads}, partial, blocks, sums, width, count);
    };
    for_pack<T>(width, [&](auto pack) {
      constexpr int N = pack();
      if constexpr (N > 1) {
        if (holds_rows(width)) {
          for_packs_of_row<8>(width, [&](auto packs) {  // of four, in two warps
            if (form.column_sums) {
              launch(context.stream(), layer_norm_backward<packs(), 3, T>, tiles, of, partial, rows);
            } else {
              launch(context.stream(), layer_norm_backward<packs(), 2, T>, tiles, of, partial, rows);
            }
          });
          whole_sums(form.column_sums ? 3 : 2);
          return;
        }
      }
      Launch columns = tiles;
      columns.blocks_y = column_blocks(width / N);
      launch(context.stream(), layer_norm_partial_sums<N, T>, columns, of.dy, of.normalized, partial, rows);
      launch(context.stream(), layer_norm_input_grad<N, T>,
             {.blocks = row_blocks(rows.capacity), .threads = kRowThreads}, of, rows);
      whole_sums(2);
      if (!form.column_sums) return;
      start_column_sums<T>(context, output<T>(a, form.of_x()), rows, partial, sums.of_x);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_normalisation(const Context& context, const Graph& graph, const Node& node) {
  const TensorType& first = graph.type(node.inputs[0]);
  return for_floating(first.dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kLayerNorm) return make_layer_norm<T>(context, node);
    if (node.op == Op::kAffine) return make_affine<T>(context);
    check(node.op == Op::kLayerNormGrad, "make_normalisation knows the op");
    return make_layer_norm_grad<T>(context, graph, node);
  });
}

}  // namespace plimsoll::cuda
