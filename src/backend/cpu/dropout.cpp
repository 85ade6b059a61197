// dropout as base/dropout.h defines it: it stores no mask and draws the same words on every backend.
#include "base/dropout.h"

#include <cstdint>
#include <cstring>

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

// y = x * scale where the random bits are at least `threshold`, else 0. row_keys are (sample, token). y may alias x.
template <class T>
HWY_INLINE void drop_rows(const T* x, const std::int32_t* row_keys, PhiloxKey key, std::uint32_t site,
                          std::uint32_t threshold, float scale, T* y, std::size_t rows, std::size_t width) {
  const hn::ScalableTag<std::uint32_t> du;
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint16_t, decltype(du)> du16;
  const std::size_t lanes = hn::Lanes(d);
  const auto threshold_lanes = hn::Set(du, threshold);
  const auto scale_lanes = hn::Set(d, scale);
  HWY_ALIGN std::uint32_t words[4 * hn::MaxLanes(du)];
  HWY_ALIGN std::uint16_t bits[8 * hn::MaxLanes(du)];
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    const auto sample = hn::Set(du, static_cast<std::uint32_t>(row_keys[2 * row]));
    const auto token = hn::Set(du, static_cast<std::uint32_t>(row_keys[2 * row + 1]));
    for (std::size_t column = 0; column < width; column += 8 * lanes) {
      auto w0 = hn::Zero(du), w1 = w0, w2 = w0, w3 = w0;
      simd_philox4x32<kDropoutRounds>(du, token, hn::Iota(du, static_cast<std::uint32_t>(column / 8)),
                                      hn::Set(du, site), sample, key[0], key[1], w0, w1, w2, w3);
      hn::StoreInterleaved4(w0, w1, w2, w3, du, words);
      std::memcpy(bits, words, 16 * lanes);  // the lower half of a word comes first, as in memory
      std::size_t i = 0;
      for (; i < 8 * lanes && column + i + lanes <= width; i += lanes) {
        const auto drop = hn::RebindMask(d, hn::Lt(hn::PromoteTo(du, hn::Load(du16, bits + i)), threshold_lanes));
        const auto scaled = hn::Mul(load_floats(d, x + column + i), scale_lanes);
        store_floats(hn::IfThenZeroElse(drop, scaled), d, y + column + i);
      }
      for (; i < 8 * lanes && column + i < width; ++i) {
        store_float(bits[i] >= threshold ? load_float(x + column + i) * scale : 0.0F, y + column + i);
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
