// inverse_row_norms: one over the norms of the rows of weight + factor b a, without a tensor of the weight's size. One
// thread computes a row from beginning to end, so that its sum does not depend on the team.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "backend/cpu/decode.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "tensor/block_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row_norms.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns the squares of `lanes` elements: weight[i] + factor * sum of b[r] a[r * width + i] over r.
template <class D, class T>
HWY_INLINE hn::Vec<D> squares(D d, const T* weight, const float* a, std::size_t width, const float* b, std::size_t rank,
                              float factor) {
  auto sum = hn::Zero(d);
  for (std::size_t r = 0; r < rank; ++r) sum = hn::MulAdd(hn::Set(d, b[r]), hn::LoadU(d, a + r * width), sum);
  const auto element = hn::MulAdd(sum, hn::Set(d, factor), load_floats(d, weight));
  return hn::Mul(element, element);
}

// Returns the sum of the squares of `count` neighbours in a row; a[r * width] belongs to the first of them.
template <class T>
HWY_INLINE float sum_of_squares(const T* weight, const float* a, std::size_t width, const float* b, std::size_t rank,
                                float factor, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sums = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) sums = hn::Add(sums, squares(d, weight + i, a + i, width, b, rank, factor));
  float sum = simd_sum(d, sums);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(squares(one, weight + i, a + i, width, b, rank, factor));
  return sum;
}

float squares_range(DType dtype, const void* weight, const float* a, std::size_t width, const float* b,
                    std::size_t rank, float factor, std::size_t count) {
  float sum = 0;
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    sum = sum_of_squares(static_cast<const T*>(weight), a, width, b, rank, factor, count);
  });
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(squares_range);

// Columns that are processed at a time: the floats of one part are added in float, the parts in double. A part has
// whole blocks of codes.
constexpr std::int64_t kPart = 4 * kCodeBlock;

}  // namespace

std::unique_ptr<Kernel> make_inverse_row_norms(const Graph& graph, const Node& node) {
  const std::int64_t rank = graph.type(node.inputs[1]).shape[0];
  const auto factor = static_cast<float>(std::get<ScaleAttributes>(node.attributes).factor);
  const auto squares = HWY_DYNAMIC_DISPATCH(squares_range);
  return make_kernel([=](const KernelArguments& arguments) {
    const TensorView& weight = arguments.inputs[0];
    const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
    const auto* const a = arguments.inputs[1].data<float>();
    const auto* const b = arguments.inputs[2].data<float>();
    auto* const inverse = arguments.outputs[0].data<float>();
    const bool coded = is_coded(weight.dtype());
    const std::size_t row_bytes = coded ? coded_row_bytes(weight.dtype(), width) : bytes_of(weight.dtype(), width);
    parallel_for(rows, 8, [&](std::int64_t begin, std::int64_t end) {
      std::array<float, kPart> decoded;
      for (std::int64_t row = begin; row < end; ++row) {
        const auto* const from =
            static_cast<const std::byte*>(weight.raw()) + static_cast<std::size_t>(row) * row_bytes;
        double sum = 0;
        for (std::int64_t first = 0; first < width; first += kPart) {
          const std::int64_t count = std::min(kPart, width - first);
          const void* part = decoded.data();
          if (coded) {
            decode_columns(weight.dtype(), from, first, count, decoded.data());
          } else {
            part = from + bytes_of(weight.dtype(), first);
          }
          sum +=
              double{squares(coded ? DType::kF32 : weight.dtype(), part, a + first, static_cast<std::size_t>(width),
                             b + row * rank, static_cast<std::size_t>(rank), factor, static_cast<std::size_t>(count))};
        }
        inverse[row] = static_cast<float>(1 / std::sqrt(sum));
      }
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
