// dropout as base/dropout.h defines it: it stores no mask and draws the same words on every backend.
#include "base/dropout.h"

#include <algorithm>
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
// After simd_math-inl.h:
#include "backend/cpu/dropout_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// y may alias x, if their types are the same.
template <class From, class To>
HWY_INLINE void drop_rows(const From* x, const RowDropout& of, To* y, std::size_t rows, std::size_t width) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), columns = DropoutBits::columns();
  DropoutBits bits;
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    for (std::size_t first = 0; first < width; first += columns) {
      bits.draw(of, row, first);
      const std::size_t end = std::min(width - first, columns);
      std::size_t i = 0;
      for (; i + lanes <= end; i += lanes) {
        store_floats(bits.drop(of, i, load_floats(d, x + first + i)), d, y + first + i);
      }
      for (; i < end; ++i) store_float(bits.drop_one(of, i, load_float(x + first + i)), y + first + i);
    }
  }
}

void dropout_rows(DType from, const void* x, const RowDropout& of, DType to, void* y, std::size_t rows,
                  std::size_t width) {
  for_element_type(from, [&](auto of_x) {
    for_element_type(to, [&](auto of_y) {
      drop_rows(static_cast<const decltype(of_x)*>(x), of, static_cast<decltype(of_y)*>(y), rows, width);
    });
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
  const auto attributes = std::get<DropoutAttributes>(node.attributes);
  const std::int64_t capacity = graph.type(node.inputs[0]).shape[0];
  const std::int64_t width = graph.type(node.inputs[0]).shape[1];
  const auto rows_function = HWY_DYNAMIC_DISPATCH(dropout_rows);
  return make_kernel([=](const KernelArguments& a) {
    const TensorView &x = a.inputs[0], &y = a.outputs[0];
    const RowDropout of = row_dropout(a.inputs[1], a.inputs[2], attributes.p, attributes.site);
    parallel_for(a.rows(capacity), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      rows_function(x.dtype(), element(x, begin * width), of.from(begin), y.dtype(), element(y, begin * width),
                    static_cast<std::size_t>(end - begin), static_cast<std::size_t>(width));
    });
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
