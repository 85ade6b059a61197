// layer_norm, also of a residual sum, affine, layer_norm_grad (Ba, Kiros, Hinton 2016; the variance is the biased one).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/row_dropout.h"
#include "backend/scratch.h"
#include "base/bytes.h"
#include "graph/layer_norm_form.h"

#ifndef PLIMSOLL_CPU_LAYER_NORM_ROWS
#define PLIMSOLL_CPU_LAYER_NORM_ROWS
namespace plimsoll {

// The addresses of some rows, and their dropout.
struct NormRows {
  const void *x, *residual;  // residual: nullptr without one
  const float *gamma, *beta;
  void *y, *normalized;
  float* rstd;
  RowDropout dropout;
};
struct GradRows {
  const void *dy, *normalized;
  const float *rstd, *gamma;
  void *dx, *dropped;  // dropped: nullptr without dropout
  RowDropout dropout;
};

}  // namespace plimsoll
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/layer_norm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"
// After simd_math-inl.h:
#include "backend/cpu/dropout_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

using OneLane = hn::CappedTag<float, 1>;

// y = normalized * gamma + beta. The affine part is computed only here, so a recomputed y has the same bits.
template <class D, class T>
HWY_INLINE void affine_step(D d, const T* normalized, const float* gamma, const float* beta, T* y) {
  store_floats(hn::MulAdd(load_floats(d, normalized), hn::LoadU(d, gamma), hn::LoadU(d, beta)), d, y);
}
template <class D, class T>
HWY_INLINE void multiply_step(D d, const T* x, const float* gamma, T* y) {
  store_floats(hn::Mul(load_floats(d, x), hn::LoadU(d, gamma)), d, y);
}

// `beta` may be nullptr: zeros.
template <class T>
HWY_INLINE void affine_row(const T* normalized, const float* gamma, const float* beta, T* y, std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  if (beta == nullptr) {
    for (; i + lanes <= width; i += lanes) multiply_step(d, normalized + i, gamma + i, y + i);
    for (; i < width; ++i) multiply_step(OneLane(), normalized + i, gamma + i, y + i);
    return;
  }
  for (; i + lanes <= width; i += lanes) affine_step(d, normalized + i, gamma + i, beta + i, y + i);
  for (; i < width; ++i) affine_step(OneLane(), normalized + i, gamma + i, beta + i, y + i);
}

void affine_rows(DType dtype, const void* normalized, const float* gamma, const float* beta, void* y, std::size_t rows,
                 std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t row = 0; row < rows; ++row) {
      affine_row(static_cast<const T*>(normalized) + row * width, gamma, beta, static_cast<T*>(y) + row * width, width);
    }
  });
}

// The mean is computed in two steps, a float mean and then the mean of the remainder, so that a mean much larger than
// the spread costs no precision. normalized may alias x. Returns rstd.
template <class X, class T>
HWY_INLINE float normalize_row(const X* x, const float* gamma, const float* beta, double eps, T* y, T* normalized,
                               std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const float inverse_width = 1.0F / static_cast<float>(width);
  auto sums = hn::Zero(d);
  float sum = 0;
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) sums = hn::Add(sums, load_floats(d, x + i));
  for (; i < width; ++i) sum += load_float(x + i);
  const float rough = (sum + simd_sum(d, sums)) * inverse_width;

  const auto rough_lanes = hn::Set(d, rough);
  auto squares = hn::Zero(d);
  sums = hn::Zero(d);
  sum = 0;
  float square = 0;
  for (i = 0; i + lanes <= width; i += lanes) {
    const auto v = hn::Sub(load_floats(d, x + i), rough_lanes);
    sums = hn::Add(sums, v);
    squares = hn::MulAdd(v, v, squares);
  }
  for (; i < width; ++i) {
    const float v = load_float(x + i) - rough;
    sum += v;
    square += v * v;
  }
  const float shift = (sum + simd_sum(d, sums)) * inverse_width;
  const double variance = double{square + simd_sum(d, squares)} / static_cast<double>(width) - double{shift} * shift;
  const float inverse_sigma = static_cast<float>(1.0 / std::sqrt(std::max(variance, 0.0) + eps));

  // x - rough is exact for most x; the small shift is subtracted afterwards.
  const auto shift_lanes = hn::Set(d, shift);
  const auto scale_lanes = hn::Set(d, inverse_sigma);
  for (i = 0; i + lanes <= width; i += lanes) {
    const auto v = hn::Sub(hn::Sub(load_floats(d, x + i), rough_lanes), shift_lanes);
    store_floats(hn::Mul(v, scale_lanes), d, normalized + i);
  }
  for (; i < width; ++i) store_float((load_float(x + i) - rough - shift) * inverse_sigma, normalized + i);
  affine_row(normalized, gamma, beta, y, width);
  return inverse_sigma;
}

// to = residual + x; x after dropout if there are keys.
template <class T>
HWY_INLINE void add_residual(const T* x, const T* residual, const RowDropout& of, std::size_t row, float* to,
                             std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), columns = DropoutBits::columns();
  if (of.row_keys == nullptr) {
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      hn::StoreU(hn::Add(load_floats(d, x + i), load_floats(d, residual + i)), d, to + i);
    }
    for (; i < width; ++i) to[i] = load_float(x + i) + load_float(residual + i);
    return;
  }
  DropoutBits bits;
  for (std::size_t first = 0; first < width; first += columns) {
    bits.draw(of, row, first);
    const std::size_t end = std::min(width - first, columns);
    std::size_t i = 0;
    for (; i + lanes <= end; i += lanes) {
      const auto kept = bits.drop(of, i, load_floats(d, x + first + i));
      hn::StoreU(hn::Add(kept, load_floats(d, residual + first + i)), d, to + first + i);
    }
    for (; i < end; ++i) {
      to[first + i] = bits.drop_one(of, i, load_float(x + first + i)) + load_float(residual + first + i);
    }
  }
}

void layer_norm_rows(DType dtype, const NormRows& r, double eps, float* sums, std::size_t rows, std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t at = row * width;
      const T* const x = static_cast<const T*>(r.x) + at;
      T* const y = static_cast<T*>(r.y) + at;
      T* const normalized = static_cast<T*>(r.normalized) + at;
      if (r.residual == nullptr) {
        r.rstd[row] = normalize_row(x, r.gamma, r.beta, eps, y, normalized, width);
      } else {
        add_residual(x, static_cast<const T*>(r.residual) + at, r.dropout, row, sums, width);
        r.rstd[row] = normalize_row(sums, r.gamma, r.beta, eps, y, normalized, width);
      }
    }
  });
}

// With g = dy * gamma and z = normalized: dx = rstd (g - mean(g) - z mean(g z)); dgamma and dbeta are these rows' sums
// of dy z and dy; dropped is dx after dropout. dx may alias dy or normalized.
template <bool kDrops, class T>
HWY_INLINE void grad_block(const GradRows& r, float* dgamma, float* dbeta, std::size_t rows, std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), columns = DropoutBits::columns();
  const float inverse_width = 1.0F / static_cast<float>(width);
  const T *dy = static_cast<const T*>(r.dy), *normalized = static_cast<const T*>(r.normalized);
  T *dx = static_cast<T*>(r.dx), *dropped = static_cast<T*>(r.dropped);
  const float* const gamma = r.gamma;
  const RowDropout& of = r.dropout;
  DropoutBits bits;
  for (std::size_t i = 0; i < width; ++i) dgamma[i] = dbeta[i] = 0;
  for (std::size_t row = 0; row < rows; ++row, dy += width, normalized += width, dx += width) {
    auto sums = hn::Zero(d), products = hn::Zero(d);
    float sum = 0, product = 0;
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const auto v = load_floats(d, dy + i), z = load_floats(d, normalized + i);
      const auto g = hn::Mul(v, hn::LoadU(d, gamma + i));
      sums = hn::Add(sums, g);
      products = hn::MulAdd(g, z, products);
      hn::StoreU(hn::MulAdd(v, z, hn::LoadU(d, dgamma + i)), d, dgamma + i);
      hn::StoreU(hn::Add(v, hn::LoadU(d, dbeta + i)), d, dbeta + i);
    }
    for (; i < width; ++i) {
      const float v = load_float(dy + i), z = load_float(normalized + i), g = v * gamma[i];
      sum += g;
      product += g * z;
      dgamma[i] += v * z;
      dbeta[i] += v;
    }
    const float mean = (sum + simd_sum(d, sums)) * inverse_width;
    const float mean_product = (product + simd_sum(d, products)) * inverse_width;
    const auto mean_lanes = hn::Set(d, mean), mean_product_lanes = hn::Set(d, mean_product),
               scale = hn::Set(d, r.rstd[row]);
    const std::size_t step = kDrops ? columns : width;
    for (std::size_t first = 0; first < width; first += step) {
      if (kDrops) bits.draw(of, row, first);
      const std::size_t end = std::min(width - first, step);
      for (i = 0; i + lanes <= end; i += lanes) {
        const std::size_t at = first + i;
        const auto g = hn::Mul(load_floats(d, dy + at), hn::LoadU(d, gamma + at));
        const auto v = hn::NegMulAdd(load_floats(d, normalized + at), mean_product_lanes, hn::Sub(g, mean_lanes));
        const auto of_x = hn::Mul(v, scale);
        store_floats(of_x, d, dx + at);
        if (kDrops) store_floats(bits.drop(of, i, of_x), d, dropped + at);
      }
      for (; i < end; ++i) {
        const std::size_t at = first + i;
        const float g = load_float(dy + at) * gamma[at];
        const float of_x = (g - mean - load_float(normalized + at) * mean_product) * r.rstd[row];
        store_float(of_x, dx + at);
        if (kDrops) store_float(bits.drop_one(of, i, of_x), dropped + at);
      }
    }
    if (kDrops) dropped += width;
  }
}

void layer_norm_grad_block(DType dtype, const GradRows& r, float* dgamma, float* dbeta, std::size_t rows,
                           std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    if (r.dropped == nullptr) {
      grad_block<false, T>(r, dgamma, dbeta, rows, width);
    } else {
      grad_block<true, T>(r, dgamma, dbeta, rows, width);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(affine_rows);
HWY_EXPORT(layer_norm_grad_block);

constexpr std::int64_t kRowGrain = 8;

RowDropout dropout_of(const KernelArguments& a, const LayerNormForm& form, const LayerNormAttributes& attributes) {
  if (!form.drops) return {};
  return row_dropout(a.inputs[LayerNormForm::kRowKeys], a.inputs[LayerNormForm::kDropoutKey], attributes.dropout_p,
                     attributes.site);
}

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const Graph& graph, const Node& node) {
  const auto attributes = std::get<LayerNormAttributes>(node.attributes);
  const LayerNormForm form = layer_norm_form(node);
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  const auto rows_function = HWY_DYNAMIC_DISPATCH(layer_norm_rows);
  // A row of floats for each thread: the row to be normalized, if that is a sum.
  const std::size_t row_bytes = form.has_residual ? round_up(bytes_of(DType::kF32, width), kAlignmentBytes) : 0;
  const auto run = [=](const KernelArguments& a) {
    const RowDropout dropout = dropout_of(a, form, attributes);
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * width;
      const NormRows rows{.x = element(a.inputs[0], at),
                          .residual = form.has_residual ? element(a.inputs[LayerNormForm::kResidual], at) : nullptr,
                          .gamma = a.inputs[1].data<float>(),
                          .beta = a.inputs[2].data<float>(),
                          .y = element(a.outputs[0], at),
                          .normalized = element(a.outputs[1], at),
                          .rstd = a.outputs[2].data<float>() + begin,
                          .dropout = dropout.from(begin)};
      float* const sums = scratch_at<float>(a, row_bytes * static_cast<std::size_t>(omp_get_thread_num()));
      rows_function(a.inputs[0].dtype(), rows, attributes.eps, sums, static_cast<std::size_t>(end - begin),
                    static_cast<std::size_t>(width));
    });
  };
  return make_kernel(run, row_bytes * static_cast<std::size_t>(omp_get_max_threads()));
}

std::unique_ptr<Kernel> make_affine(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  const auto rows_function = HWY_DYNAMIC_DISPATCH(affine_rows);
  return make_kernel([=](const KernelArguments& a) {
    const TensorView &x = a.inputs[0], &y = a.outputs[0];
    const float* const gamma = a.inputs[1].data<float>();
    const float* const beta = a.inputs.size() > 2 ? a.inputs[2].data<float>() : nullptr;
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      rows_function(y.dtype(), element(x, begin * width), gamma, beta, element(y, begin * width),
                    static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width));
    });
  });
}

// The scratch holds dgamma and dbeta of each block of kSumBlock rows.
std::unique_ptr<Kernel> make_layer_norm_grad(const Graph& graph, const Node& node) {
  const auto attributes = std::get<LayerNormAttributes>(node.attributes);
  const LayerNormForm form = layer_norm_form(node);
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  const std::int64_t max_blocks = (capacity + kSumBlock - 1) / kSumBlock;
  const auto block_function = HWY_DYNAMIC_DISPATCH(layer_norm_grad_block);
  const auto run = [=](const KernelArguments& a) {
    const RowDropout dropout = dropout_of(a, form, attributes);
    float* const partial = scratch_at<float>(a, 0);  // [block][dgamma, dbeta][width]
    const std::int64_t rows = a.rows(capacity);
    const std::int64_t blocks = (rows + kSumBlock - 1) / kSumBlock;
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t row = block * kSumBlock;
        const GradRows of{.dy = element(a.inputs[0], row * width),
                          .normalized = element(a.inputs[1], row * width),
                          .rstd = a.inputs[2].data<float>() + row,
                          .gamma = a.inputs[3].data<float>(),
                          .dx = element(a.outputs[0], row * width),
                          .dropped = form.drops ? element(a.outputs[form.of_x()], row * width) : nullptr,
                          .dropout = dropout.from(row)};
        float* const dgamma = partial + block * 2 * width;
        block_function(a.inputs[0].dtype(), of, dgamma, dgamma + width,
                       static_cast<std::size_t>(std::min(kSumBlock, rows - row)), static_cast<std::size_t>(width));
      }
    });
    float* const dgamma = a.outputs[form.dgamma()].data<float>();
    float* const dbeta = a.outputs[form.dbeta()].data<float>();
    for (std::int64_t i = 0; i < width; ++i) dgamma[i] = dbeta[i] = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* const from = partial + block * 2 * width;
      for (std::int64_t i = 0; i < width; ++i) {
        dgamma[i] += from[i];
        dbeta[i] += from[width + i];
      }
    }
  };
  return make_kernel(run, static_cast<std::size_t>(max_blocks * 2 * width) * sizeof(float));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
