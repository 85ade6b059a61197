// rotary_table and rotary.
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// The angle is a float, whatever the type, as in transformers.
template <typename T>
void rotary_table(const KernelArguments& a) {
  const std::int32_t* const positions = a.inputs[0].data<std::int32_t>();
  const T* const frequencies = a.inputs[1].data<T>();
  const Matrix<T> table(a.outputs[0]);
  const std::int64_t half = table.columns() / 2;
  for (std::int64_t row = 0; row < a.rows(table.rows()); ++row) {
    for (std::int64_t j = 0; j < half; ++j) {
      const float angle = static_cast<float>(positions[row]) * static_cast<float>(frequencies[j]);
      table[row][j] = static_cast<T>(std::cos(double{angle}));
      table[row][half + j] = static_cast<T>(std::sin(double{angle}));
    }
  }
}

template <typename T>
void rotary(const KernelArguments& a, bool back) {
  const Matrix<const T> x(a.inputs[0]), table(a.inputs[1]);
  const Matrix<T> y(a.outputs[0]);
  const std::int64_t width = table.columns(), half = width / 2;
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t head = 0; head < x.columns(); head += width) {
      for (std::int64_t j = 0; j < half; ++j) {
        const double first = x[row][head + j], second = x[row][head + half + j];
        const double cosine = table[row][j], sine = back ? -double{table[row][half + j]} : double{table[row][half + j]};
        y[row][head + j] = static_cast<T>(first * cosine - second * sine);
        y[row][head + half + j] = static_cast<T>(second * cosine + first * sine);
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_rotary_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kRotaryTable) return make_kernel(node, [](const KernelArguments& a) { rotary_table<T>(a); });
    check(node.op == Op::kRotary, "make_rotary_kernel knows the op");
    const bool back = std::get<RotaryAttributes>(node.attributes).back;
    return make_kernel(node, [back](const KernelArguments& a) { rotary<T>(a, back); });
  });
}

}  // namespace plimsoll::reference
