// sum_squares, gradient_norm, adamw, adamw_rows.
//
// AdamW (Loshchilov, Hutter 2019) with the arithmetic of torch.optim.AdamW's single-tensor path: scalars in double,
// rounded to float where they meet a tensor; every tensor operation in float. The gradient is multiplied by clip first.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

#ifndef PLIMSOLL_BACKEND_CPU_UPDATE_ONCE
#define PLIMSOLL_BACKEND_CPU_UPDATE_ONCE
namespace plimsoll {

struct AdamWScalars {
  float clip, decay, one_minus_beta1, beta2, one_minus_beta2, sqrt_bias_correction2, eps, step_size;
};

}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Sum of squares in double; a product of two floats is exact there.
double sum_squares_range(const float* x, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = hn::PromoteTo(d, hn::LoadU(half, x + i)), v1 = hn::PromoteTo(d, hn::LoadU(half, x + i + lanes));
    const auto v2 = hn::PromoteTo(d, hn::LoadU(half, x + i + 2 * lanes));
    const auto v3 = hn::PromoteTo(d, hn::LoadU(half, x + i + 3 * lanes));
    sum0 = hn::MulAdd(v0, v0, sum0);
    sum1 = hn::MulAdd(v1, v1, sum1);
    sum2 = hn::MulAdd(v2, v2, sum2);
    sum3 = hn::MulAdd(v3, v3, sum3);
  }
  double sum = simd_sum(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  for (; i < count; ++i) sum += double{x[i]} * double{x[i]};
  return sum;
}

template <class D, class V>
HWY_INLINE void adamw_step(D d, const AdamWScalars& s, float* parameter, float* m, float* v, V gradient) {
  const auto g = hn::Mul(gradient, hn::Set(d, s.clip));
  const auto decayed = hn::Mul(hn::LoadU(d, parameter), hn::Set(d, s.decay));
  const auto old_m = hn::LoadU(d, m);
  const auto new_m = hn::Add(old_m, hn::Mul(hn::Set(d, s.one_minus_beta1), hn::Sub(g, old_m)));
  const auto new_v =
      hn::Add(hn::Mul(hn::LoadU(d, v), hn::Set(d, s.beta2)), hn::Mul(hn::Mul(hn::Set(d, s.one_minus_beta2), g), g));
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(new_v), hn::Set(d, s.sqrt_bias_correction2)), hn::Set(d, s.eps));
  hn::StoreU(new_m, d, m);
  hn::StoreU(new_v, d, v);
  hn::StoreU(hn::Add(decayed, hn::Div(hn::Mul(hn::Set(d, s.step_size), new_m), denominator)), d, parameter);
}

// gradient may be null: zeros.
void adamw_range(const AdamWScalars& scalars, float* parameter, float* m, float* v, const float* gradient,
                 std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one_lane;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    adamw_step(d, scalars, parameter + i, m + i, v + i, gradient == nullptr ? hn::Zero(d) : hn::LoadU(d, gradient + i));
  }
  for (; i < count; ++i) {
    adamw_step(one_lane, scalars, parameter + i, m + i, v + i,
               gradient == nullptr ? hn::Zero(one_lane) : hn::LoadU(one_lane, gradient + i));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(sum_squares_range);
HWY_EXPORT(adamw_range);

// Elements of one partial sum; fixed, so that sums do not depend on the team.
constexpr std::int64_t kSumElements = 65536;
constexpr std::int64_t kUpdateGrain = 16384;

// tail: learning_rate, step, clip.
AdamWScalars scalars_of(const AdamWAttributes& attributes, std::span<const TensorView> tail) {
  const double learning_rate = *tail[0].data<float>();
  const double step = *tail[1].data<std::int32_t>();
  const double bias_correction1 = 1.0 - std::pow(attributes.beta1, step);
  const double bias_correction2 = 1.0 - std::pow(attributes.beta2, step);
  return {.clip = *tail[2].data<float>(),
          .decay = static_cast<float>(1.0 - learning_rate * attributes.weight_decay),
          .one_minus_beta1 = static_cast<float>(1.0 - attributes.beta1),
          .beta2 = static_cast<float>(attributes.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - attributes.beta2),
          .sqrt_bias_correction2 = static_cast<float>(std::sqrt(bias_correction2)),
          .eps = static_cast<float>(attributes.eps),
          .step_size = static_cast<float>(-learning_rate / bias_correction1)};
}

}  // namespace

// Scratch: the sum of each kSumElements elements.
std::unique_ptr<Kernel> make_sum_squares(const Graph& graph, const Node& node) {
  const Shape shape = graph.type(node.inputs[0]).shape;
  const std::int64_t capacity = shape.rank() == 0 ? 1 : shape[0];
  const std::int64_t row_elements = capacity == 0 ? 0 : shape.elements() / capacity;
  const std::int64_t max_blocks = (shape.elements() + kSumElements - 1) / kSumElements;
  const auto sum_range = HWY_DYNAMIC_DISPATCH(sum_squares_range);
  const auto run = [=](const KernelArguments& a) {
    const float* const x = a.inputs[0].data<float>();
    double* const partial = scratch_at<double>(a, 0);
    const std::int64_t count = a.rows(capacity) * row_elements;
    const std::int64_t blocks = (count + kSumElements - 1) / kSumElements;
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kSumElements;
        partial[block] = sum_range(x + first, static_cast<std::size_t>(std::min(kSumElements, count - first)));
      }
    });
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block];
    *a.outputs[0].data<double>() = sum;
  };
  return make_kernel(run, static_cast<std::size_t>(max_blocks) * sizeof(double));
}

// As torch.nn.utils.clip_grad_norm_ computes it, in double, rounded once.
std::unique_ptr<Kernel> make_gradient_norm(const Graph&, const Node&) {
  return make_kernel([](const KernelArguments& a) {
    const double max_norm = *a.inputs[0].data<float>();
    double sum = 0;
    for (const TensorView& squares : a.inputs.subspan(1)) sum += *squares.data<double>();
    const double norm = std::sqrt(sum);
    *a.outputs[0].data<float>() = static_cast<float>(norm);
    *a.outputs[1].data<float>() = max_norm <= 0 ? 1.0F : static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
  });
}

std::unique_ptr<Kernel> make_adamw(const Graph&, const Node& node) {
  const auto attributes = std::get<AdamWAttributes>(node.attributes);
  const auto update = HWY_DYNAMIC_DISPATCH(adamw_range);
  return make_kernel([=](const KernelArguments& a) {
    const AdamWScalars scalars = scalars_of(attributes, a.inputs.subspan(4));
    float* const parameter = a.outputs[0].data<float>();
    float* const m = a.outputs[1].data<float>();
    float* const v = a.outputs[2].data<float>();
    const float* const gradient = a.inputs[3].data<float>();
    parallel_for(a.outputs[0].elements(), kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
      update(scalars, parameter + begin, m + begin, v + begin, gradient + begin, static_cast<std::size_t>(end - begin));
    });
  });
}

// Every row of the table moves: those that are absent from ids have gradient 0, but their m and v decay.
std::unique_ptr<Kernel> make_adamw_rows(const Graph& graph, const Node& node) {
  const auto attributes = std::get<AdamWAttributes>(node.attributes);
  const std::int64_t table_rows = graph.type(node.inputs[0]).shape[0], width = graph.type(node.inputs[0]).shape[1];
  const auto update = HWY_DYNAMIC_DISPATCH(adamw_range);
  return make_kernel([=](const KernelArguments& a) {
    const AdamWScalars scalars = scalars_of(attributes, a.inputs.subspan(6));
    float* const parameter = a.outputs[0].data<float>();
    float* const m = a.outputs[1].data<float>();
    float* const v = a.outputs[2].data<float>();
    const std::int32_t* const ids = a.inputs[3].data<std::int32_t>();
    const std::int32_t* const ids_end = ids + *a.inputs[4].data<std::int32_t>();
    const float* const rows = a.inputs[5].data<float>();
    parallel_for(table_rows, 16, [&](std::int64_t begin, std::int64_t end) {
      const std::int32_t* next = std::lower_bound(ids, ids_end, static_cast<std::int32_t>(begin));
      for (std::int64_t row = begin; row < end; ++row) {
        const bool present = next != ids_end && *next == row;
        update(scalars, parameter + row * width, m + row * width, v + row * width,
               present ? rows + (next - ids) * width : nullptr, static_cast<std::size_t>(width));
        next += present ? 1 : 0;
      }
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
