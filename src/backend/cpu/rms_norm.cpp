// rms_norm and its gradient (Zhang, Sennrich 2019).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

#ifndef PLIMSOLL_CPU_RMS_NORM_GROUPS
#define PLIMSOLL_CPU_RMS_NORM_GROUPS
namespace plimsoll {

// The addresses of neighbouring groups, each of which is normalized by itself.
struct RmsGroups {
  const void* x;
  const float* gamma;
  void *y, *normalized;
  float* rstd;
};
struct RmsGradGroups {
  const void *dy, *normalized;
  const float *rstd, *gamma;
  void* dx;
};

}  // namespace plimsoll
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rms_norm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// normalized may alias x. y is computed from the rounded `normalized`, as in affine.
template <class T>
HWY_INLINE float normalize_group(const T* x, const float* gamma, double eps, T* y, T* normalized, std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto squares = hn::Zero(d);
  float square = 0;
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    const auto v = load_floats(d, x + i);
    squares = hn::MulAdd(v, v, squares);
  }
  for (; i < width; ++i) square += load_float(x + i) * load_float(x + i);
  const double mean = double{square + simd_sum(d, squares)} / static_cast<double>(width);
  const float inverse = static_cast<float>(1.0 / std::sqrt(mean + eps));
  for (i = 0; i + lanes <= width; i += lanes) {
    store_floats(hn::Mul(load_floats(d, x + i), hn::Set(d, inverse)), d, normalized + i);
    store_floats(hn::Mul(load_floats(d, normalized + i), hn::LoadU(d, gamma + i)), d, y + i);
  }
  for (; i < width; ++i) {
    store_float(load_float(x + i) * inverse, normalized + i);
    store_float(load_float(normalized + i) * gamma[i], y + i);
  }
  return inverse;
}

void rms_norm_groups(DType dtype, const RmsGroups& of, double eps, std::size_t groups, std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t at = group * width;
      of.rstd[group] = normalize_group(static_cast<const T*>(of.x) + at, of.gamma, eps, static_cast<T*>(of.y) + at,
                                       static_cast<T*>(of.normalized) + at, width);
    }
  });
}

// With g = dy * gamma and z = normalized: dx = rstd (g - z mean(g z)); dgamma is these groups' sum of dy z. dx may
// alias dy or normalized.
template <class T>
HWY_INLINE void grad_group(const T* dy, const T* normalized, const float* gamma, float rstd, T* dx, float* dgamma,
                           std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto products = hn::Zero(d);
  float product = 0;
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    const auto v = load_floats(d, dy + i), z = load_floats(d, normalized + i);
    products = hn::MulAdd(hn::Mul(v, hn::LoadU(d, gamma + i)), z, products);
    hn::StoreU(hn::MulAdd(v, z, hn::LoadU(d, dgamma + i)), d, dgamma + i);
  }
  for (; i < width; ++i) {
    const float v = load_float(dy + i), z = load_float(normalized + i);
    product += v * gamma[i] * z;
    dgamma[i] += v * z;
  }
  const float mean = (product + simd_sum(d, products)) / static_cast<float>(width);
  for (i = 0; i + lanes <= width; i += lanes) {
    const auto g = hn::Mul(load_floats(d, dy + i), hn::LoadU(d, gamma + i));
    const auto v = hn::NegMulAdd(load_floats(d, normalized + i), hn::Set(d, mean), g);
    store_floats(hn::Mul(v, hn::Set(d, rstd)), d, dx + i);
  }
  for (; i < width; ++i) {
    const float v = load_float(dy + i) * gamma[i] - load_float(normalized + i) * mean;
    store_float(v * rstd, dx + i);
  }
}

void rms_norm_grad_groups(DType dtype, const RmsGradGroups& of, float* dgamma, std::size_t groups, std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t i = 0; i < width; ++i) dgamma[i] = 0;
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t at = group * width;
      grad_group(static_cast<const T*>(of.dy) + at, static_cast<const T*>(of.normalized) + at, of.gamma, of.rstd[group],
                 static_cast<T*>(of.dx) + at, dgamma, width);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(rms_norm_groups);
HWY_EXPORT(rms_norm_grad_groups);

constexpr std::int64_t kGroupGrain = 8;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const Graph& graph, const Node& node) {
  const double eps = std::get<RmsNormAttributes>(node.attributes).eps;
  const Shape& stds = graph.type(node.outputs[2]).shape;
  const std::int64_t capacity = stds[0], groups = stds[1], width = graph.type(node.inputs[1]).shape[0];
  const auto function = HWY_DYNAMIC_DISPATCH(rms_norm_groups);
  return make_kernel([=](const KernelArguments& a) {
    parallel_for(a.rows(capacity) * groups, kGroupGrain, [&](std::int64_t begin, std::int64_t end) {
      const RmsGroups of{.x = element(a.inputs[0], begin * width),
                         .gamma = a.inputs[1].data<float>(),
                         .y = element(a.outputs[0], begin * width),
                         .normalized = element(a.outputs[1], begin * width),
                         .rstd = a.outputs[2].data<float>() + begin};
      function(a.inputs[0].dtype(), of, eps, static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width));
    });
  });
}

// The scratch holds dgamma of each block of kSumBlock groups.
std::unique_ptr<Kernel> make_rms_norm_grad(const Graph& graph, const Node& node) {
  const Shape& stds = graph.type(node.inputs[2]).shape;
  const std::int64_t capacity = stds[0], groups = stds[1], width = graph.type(node.inputs[3]).shape[0];
  const std::int64_t most_blocks = (capacity * groups + kSumBlock - 1) / kSumBlock;
  const auto function = HWY_DYNAMIC_DISPATCH(rms_norm_grad_groups);
  const auto run = [=](const KernelArguments& a) {
    float* const partial = scratch_at<float>(a, 0);
    const std::int64_t count = a.rows(capacity) * groups, blocks = (count + kSumBlock - 1) / kSumBlock;
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t group = block * kSumBlock;
        const RmsGradGroups of{.dy = element(a.inputs[0], group * width),
                               .normalized = element(a.inputs[1], group * width),
                               .rstd = a.inputs[2].data<float>() + group,
                               .gamma = a.inputs[3].data<float>(),
                               .dx = element(a.outputs[0], group * width)};
        function(a.inputs[0].dtype(), of, partial + block * width,
                 static_cast<std::size_t>(std::min(kSumBlock, count - group)), static_cast<std::size_t>(width));
      }
    });
    float* const dgamma = a.outputs[1].data<float>();
    std::fill_n(dgamma, width, 0.0F);
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t i = 0; i < width; ++i) dgamma[i] += partial[block * width + i];
    }
  };
  return make_kernel(run, static_cast<std::size_t>(most_blocks * width) * sizeof(float));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
