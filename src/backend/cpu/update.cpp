// sum_squares, gradient_norm.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the sum of squares in double, where a product of two floats is exact.
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

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(sum_squares_range);

// A partial sum covers this many elements; the number is fixed, so that sums do not depend on the team.
constexpr std::int64_t kSumElements = 65536;

}  // namespace

// The scratch holds the sum of each kSumElements elements of a tensor.
std::unique_ptr<Kernel> make_sum_squares(const Graph& graph, const Node& node) {
  std::int64_t max_blocks = 0;
  for (const ValueId input : node.inputs) {
    max_blocks = std::max(max_blocks, (graph.type(input).shape.elements() + kSumElements - 1) / kSumElements);
  }
  const auto sum_range = HWY_DYNAMIC_DISPATCH(sum_squares_range);
  const auto run = [=](const KernelArguments& a) {
    double* const partial = scratch_at<double>(a, 0);
    for (std::size_t t = 0; t < a.inputs.size(); ++t) {
      const Shape& shape = a.inputs[t].shape();
      const std::int64_t capacity = shape.rank() == 0 ? 1 : shape[0];
      const std::int64_t row_elements = capacity == 0 ? 0 : shape.elements() / capacity;
      const float* const x = a.inputs[t].data<float>();
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
      *a.outputs[t].data<double>() = sum;
    }
  };
  return make_kernel(run, static_cast<std::size_t>(max_blocks) * sizeof(double));
}

// Computes the norm and the clip factor as torch.nn.utils.clip_grad_norm_ does, in double, rounded once.
std::unique_ptr<Kernel> make_gradient_norm(const Graph&, const Node& node) {
  const bool unscales = std::get<GradientNormAttributes>(node.attributes).unscales;
  return make_kernel([unscales](const KernelArguments& a) {
    const double max_norm = *a.inputs[0].data<float>();
    const double unscale = unscales ? double{*a.inputs[1].data<float>()} : 1.0;
    double sum = 0;
    for (const TensorView& squares : a.inputs.subspan(unscales ? 2 : 1)) sum += *squares.data<double>();
    const double norm = std::sqrt(sum) * unscale;
    const double clip = max_norm <= 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
    *a.outputs[0].data<float>() = static_cast<float>(norm);
    *a.outputs[1].data<float>() =
        std::isfinite(norm) ? static_cast<float>(clip * unscale) : std::numeric_limits<float>::quiet_NaN();
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
