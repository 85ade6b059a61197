// cached_attention: a thread takes heads of rows, and walks over the rows of the table that each sees, some at a time;
// when a larger score comes, the sums so far are scaled down (Milakov, Gimelshein 2018).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"
#include "graph/attention_form.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/cached_attention.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

constexpr std::int64_t kKeys = 64;

template <class T>
HWY_INLINE float dot(const T* a, const T* b, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) sum = hn::MulAdd(load_floats(d, a + c), load_floats(d, b + c), sum);
  float whole = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; c < count; ++c) whole += load_float(a + c) * load_float(b + c);
  return whole;
}

// sums += factor * from.
template <class T>
HWY_INLINE void add_times(float factor, const T* from, std::int64_t count, float* sums) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    hn::StoreU(hn::MulAdd(by, load_floats(d, from + c), hn::LoadU(d, sums + c)), d, sums + c);
  }
  for (; c < count; ++c) sums[c] += factor * load_float(from + c);
}

HWY_INLINE void multiply(float factor, std::int64_t count, float* sums) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] *= factor;
}

// scores[j] = exp(scores[j] - largest) for kKeys of them; returns the sum of the first `count`.
HWY_INLINE float exponentials(float largest, std::int64_t count, float* scores) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, largest);
  for (std::int64_t j = 0; j < kKeys; j += lanes) {
    hn::StoreU(simd_exp(d, hn::Sub(hn::LoadU(d, scores + j), most)), d, scores + j);
  }
  float sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += scores[j];
  return sum;
}

template <class T>
HWY_INLINE void attend(const T* q, const T* keys, const T* values, std::int64_t stride, std::int64_t count,
                       std::int64_t width, float* sums, T* out) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(width));
  float largest = -std::numeric_limits<float>::infinity(), whole = 0;
  std::fill_n(sums, width, 0.0F);
  HWY_ALIGN float scores[kKeys] = {};
  for (std::int64_t first = 0; first < count; first += kKeys) {
    const std::int64_t some = std::min(kKeys, count - first);
    float most = largest;
    for (std::int64_t j = 0; j < some; ++j) {
      scores[j] = scale * dot(q, keys + (first + j) * stride, width);
      most = std::max(most, scores[j]);
    }
    const float kept = std::exp(largest - most);
    multiply(kept, width, sums);
    largest = most;
    whole = whole * kept + exponentials(largest, some, scores);
    for (std::int64_t j = 0; j < some; ++j) add_times(scores[j], values + (first + j) * stride, width, sums);
  }
  for (std::int64_t c = 0; c < width; ++c) store_float(sums[c] / whole, out + c);
}

void attend_head(DType dtype, const void* q, const void* keys, const void* values, std::int64_t stride,
                 std::int64_t count, std::int64_t width, float* sums, void* out) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    attend(static_cast<const T*>(q), static_cast<const T*>(keys), static_cast<const T*>(values), stride, count, width,
           sums, static_cast<T*>(out));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(attend_head);

// The scratch holds the sums of all heads of all rows.
std::unique_ptr<Kernel> make_cached_attention(const Graph& graph, const Node& node) {
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const Shape q = graph.type(node.inputs[0]).shape;
  const std::int64_t heads = attributes.heads, group = heads / key_value_heads(attributes), width = q[1] / heads;
  const std::int64_t stride = graph.type(node.inputs[1]).shape[1];
  const auto function = HWY_DYNAMIC_DISPATCH(attend_head);
  const auto run = [=](const KernelArguments& a) {
    const auto* const seen = a.inputs[3].data<std::int32_t>();
    auto* const sums = reinterpret_cast<float*>(a.scratch.data());
    parallel_for(a.rows(q[0]) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t row = item / heads, first = seen[2 * row];
        const std::int64_t at = first * stride + item % heads / group * width;
        function(a.inputs[0].dtype(), element(a.inputs[0], item * width), element(a.inputs[1], at),
                 element(a.inputs[2], at), stride, seen[2 * row + 1] - first, width, sums + item * width,
                 element(a.outputs[0], item * width));
      }
    });
  };
  return make_kernel(run, static_cast<std::size_t>(q.elements()) * sizeof(float));
}

}  // namespace plimsoll
#endif  // HWY_ONCE
