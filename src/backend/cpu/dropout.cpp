// dropout as base/dropout.h defines it: no stored mask, the same words on every backend.
#include "base/dropout.h"

#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/dropout.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_halves-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// y = x * scale where the random word is at least `threshold`, else 0; row_keys are (sample, token). y may be x.
template <class T>
HWY_INLINE void drop_rows(const T* x, const std::int32_t* row_keys, PhiloxKey key, std::uint32_t site,
                          std::uint32_t threshold, float scale, T* y, std::size_t rows, std::size_t width) {
  const hn::ScalableTag<std::uint32_t> du;
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto threshold_lanes = hn::Set(du, threshold);
  const auto scale_lanes = hn::Set(d, scale);
  HWY_ALIGN std::uint32_t words[4 * hn::MaxLanes(du)];
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    const auto sample = hn::Set(du, static_cast<std::uint32_t>(row_keys[2 * row]));
    const auto token = hn::Set(du, static_cast<std::uint32_t>(row_keys[2 * row + 1]));
    for (std::size_t column = 0; column < width; column += 4 * lanes) {
      auto w0 = hn::Zero(du), w1 = w0, w2 = w0, w3 = w0;
      simd_philox4x32(du, token, hn::Iota(du, static_cast<std::uint32_t>(column / 4)), hn::Set(du, site), sample,
                      key[0], key[1], w0, w1, w2, w3);
      hn::StoreInterleaved4(w0, w1, w2, w3, du, words);
      if (column + 4 * lanes <= width) {
        for (std::size_t i = 0; i < 4 * lanes; i += lanes) {
          const auto drop = hn::RebindMask(d, hn::Lt(hn::Load(du, words + i), threshold_lanes));
          const auto scaled = hn::Mul(load_floats(d, x + column + i), scale_lanes);
          store_floats(hn::IfThenZeroElse(drop, scaled), d, y + column + i);
        }
      } else {
        for (std::size_t i = 0; column + i < width; ++i) {
          store_float(words[i] >= threshold ? load_float(x + column + i) * scale : 0.0F, y + column + i);
        }
      }
    }
  }
}

void dropout_rows(DType dtype, const void* x, const std::int32_t* row_keys, PhiloxKey key, std::uint32_t site,
                  std::uint32_t threshold, float scale, void* y, std::size_t rows, std::size_t width) {
  for_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    drop_rows(static_cast<const T*>(x), row_keys, key, site, threshold, scale, static_cast<T*>(y), rows, width);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(dropout_rows);

constexpr std::int64_t kRowGrain = 4;

}  // namespace

std::unique_ptr<Kernel> make_dropout(const Graph& graph, const Node& node) {
  const auto& attributes = std::get<DropoutAttributes>(node.attributes);
  const std::uint32_t site = attributes.site, threshold = dropout_threshold(attributes.p);
  const float scale = static_cast<float>(dropout_scale(attributes.p));
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  const auto rows_function = HWY_DYNAMIC_DISPATCH(dropout_rows);
  return make_kernel([=](const KernelArguments& a) {
    const TensorView &x = a.inputs[0], &y = a.outputs[0];
    const std::int32_t* const row_keys = a.inputs[1].data<std::int32_t>();
    const std::int32_t* const words = a.inputs[2].data<std::int32_t>();
    const PhiloxKey key{static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(words[1])};
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      rows_function(x.dtype(), element(x, begin * width), row_keys + begin * 2, key, site, threshold, scale,
                    element(y, begin * width), static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width));
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
