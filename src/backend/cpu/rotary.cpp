// rotary_table and rotary (Su et al. 2021). The table is made once for all layers, so its sines need not be fast.
#include <cmath>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rotary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// x and y are the two halves of a head; `table`: cosines, then sines. `to` may alias `from`.
template <bool kBack, class D, class T>
HWY_INLINE void turn(D d, const T* from, const float* table, std::size_t half, T* to) {
  const auto x = load_floats(d, from), y = load_floats(d, from + half);
  const auto cosine = hn::LoadU(d, table), sine = hn::LoadU(d, table + half);
  const auto sine_x = hn::Mul(sine, x), sine_y = hn::Mul(sine, y);
  store_floats(kBack ? hn::MulAdd(cosine, x, sine_y) : hn::MulSub(cosine, x, sine_y), d, to);
  store_floats(kBack ? hn::MulSub(cosine, y, sine_x) : hn::MulAdd(cosine, y, sine_x), d, to + half);
}

template <bool kBack, class T>
HWY_INLINE void turn_heads(const T* x, const float* table, T* y, std::size_t heads, std::size_t half) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t head = 0; head < heads; ++head, x += 2 * half, y += 2 * half) {
    std::size_t j = 0;
    for (; j + lanes <= half; j += lanes) turn<kBack>(d, x + j, table + j, half, y + j);
    for (; j < half; ++j) turn<kBack>(one, x + j, table + j, half, y + j);
  }
}

void rotary_row(DType dtype, const void* x, const float* table, void* y, std::size_t heads, std::size_t half,
                bool back) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    if (back) {
      turn_heads<true>(static_cast<const T*>(x), table, static_cast<T*>(y), heads, half);
    } else {
      turn_heads<false>(static_cast<const T*>(x), table, static_cast<T*>(y), heads, half);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(rotary_row);

constexpr std::int64_t kRowGrain = 4;

}  // namespace

std::unique_ptr<Kernel> make_rotary_table(const Graph& graph, const Node& node) {
  const std::int64_t capacity = graph.type(node.outputs[0]).shape[0];
  const std::int64_t half = graph.type(node.inputs[1]).shape[0];
  return make_kernel([=](const KernelArguments& a) {
    const auto* const positions = a.inputs[0].data<const std::int32_t>();
    const auto* const frequencies = a.inputs[1].data<const float>();
    float* const table = a.outputs[0].data<float>();
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t j = 0; j < half; ++j) {
          const float angle = static_cast<float>(positions[row]) * frequencies[j];
          table[2 * row * half + j] = std::cos(angle);
          table[(2 * row + 1) * half + j] = std::sin(angle);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_rotary(const Graph& graph, const Node& node) {
  const bool back = std::get<RotaryAttributes>(node.attributes).back;
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0], columns = graph.type(node.inputs[0]).shape[1];
  const std::int64_t width = graph.type(node.inputs[1]).shape[1];
  const auto function = HWY_DYNAMIC_DISPATCH(rotary_row);
  return make_kernel([=](const KernelArguments& a) {
    const auto* const table = a.inputs[1].data<const float>();
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        function(a.inputs[0].dtype(), element(a.inputs[0], row * columns), table + row * width,
                 element(a.outputs[0], row * columns), static_cast<std::size_t>(columns / width),
                 static_cast<std::size_t>(width / 2), back);
      }
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
