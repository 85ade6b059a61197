// add, multiply, scale, accumulate, dropout, gelu, tanh and their gradients, and cast. An output may alias either
// input, because every element is read before it is written.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "backend/reference/loop_kernel.h"
#include "base/dropout.h"

namespace plimsoll::reference {
namespace {

// Returns the number of elements in the real leading rows.
template <typename T>
std::int64_t real_elements(const KernelArguments& a, const TensorView& view) {
  const Matrix<T> matrix(view);
  return a.rows(matrix.rows()) * matrix.columns();
}

template <typename T, typename Function>
void map(const KernelArguments& a, Function function) {
  const T* x = a.inputs[0].data<T>();
  T* y = a.outputs[0].data<T>();
  const std::int64_t count = real_elements<T>(a, a.outputs[0]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(function(double{x[i]}));
}

template <typename T, typename Function>
void map2(const KernelArguments& a, Function function) {
  const T* x0 = a.inputs[0].data<T>();
  const T* x1 = a.inputs[1].data<T>();
  T* y = a.outputs[0].data<T>();
  const std::int64_t count = real_elements<T>(a, a.outputs[0]);
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(function(double{x0[i]}, double{x1[i]}));
}

// The distribution function and density of the standard normal distribution.
double normal_cdf(double x) { return 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2)); }
double normal_pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi); }

// x / (1 + exp(-x)), and its slope.
double silu(double x) { return x / (1.0 + std::exp(-x)); }
double silu_slope(double x) {
  const double logistic = 1.0 / (1.0 + std::exp(-x));
  return logistic * (1.0 + x * (1.0 - logistic));
}

// The form by tanh, and its slope.
double gelu_argument(double x) { return std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double tanh_gelu(double x) { return 0.5 * x * (1.0 + std::tanh(gelu_argument(x))); }
double tanh_gelu_slope(double x) {
  const double t = std::tanh(gelu_argument(x));
  const double of_argument = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * of_argument;
}

// The gradients may lie in the bytes of their own inputs, or of dy.
template <typename T>
void silu_multiply_grad(const KernelArguments& a) {
  const T *dy = a.inputs[0].data<T>(), *gate = a.inputs[1].data<T>(), *x = a.inputs[2].data<T>();
  T *dgate = a.outputs[0].data<T>(), *dx = a.outputs[1].data<T>();
  const std::int64_t count = real_elements<T>(a, a.outputs[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    const double d = dy[i], g = gate[i], value = x[i];
    dgate[i] = static_cast<T>(d * value * silu_slope(g));
    dx[i] = static_cast<T>(d * silu(g));
  }
}

template <typename T>
void dropout(const KernelArguments& a, const DropoutAttributes& attributes) {
  const Matrix<const T> x(a.inputs[0]);
  const Matrix<const std::int32_t> row_keys(a.inputs[1]);
  const std::int32_t* key = a.inputs[2].data<std::int32_t>();
  const Matrix<T> y(a.outputs[0]);
  const PhiloxKey philox_key{static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1])};
  const std::uint32_t threshold = dropout_threshold(attributes.p);
  const T scale = static_cast<T>(dropout_scale(attributes.p));
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    const auto sample = static_cast<std::uint32_t>(row_keys[row][0]);
    const auto token = static_cast<std::uint32_t>(row_keys[row][1]);
    for (std::int64_t column = 0; column < x.columns(); ++column) {
      const std::uint32_t bits =
          hidden_dropout_bits(philox_key, attributes.site, sample, token, static_cast<std::uint32_t>(column));
      y[row][column] = bits >= threshold ? x[row][column] * scale : T{0};
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_elementwise_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    switch (node.op) {
      case Op::kAdd:
        return make_kernel(node,
                           [](const KernelArguments& a) { map2<T>(a, [](double x, double y) { return x + y; }); });
      case Op::kMultiply:
        return make_kernel(node,
                           [](const KernelArguments& a) { map2<T>(a, [](double x, double y) { return x * y; }); });
      case Op::kAccumulate:
        return make_kernel(node, [](const KernelArguments& a) {
          const bool keep = *a.inputs[2].data<std::int32_t>() != 0;
          map2<T>(a, [keep](double sum, double x) { return keep ? sum + x : x; });
        });
      case Op::kCast:  // between F32 and F64; the widened kernel handles halves
        return make_kernel(node, [](const KernelArguments& a) {
          for (std::size_t i = 0; i < a.inputs.size(); ++i) {
            const bool by_rows = a.outputs[i].shape().rank() == 2;
            const std::int64_t count = by_rows ? real_elements<T>(a, a.outputs[i]) : a.outputs[i].elements();
            if (a.inputs[i].dtype() == DType::kF64) {
              const double* const x = a.inputs[i].data<double>();
              std::transform(x, x + count, a.outputs[i].data<T>(), [](double value) { return static_cast<T>(value); });
            } else {
              const float* const x = a.inputs[i].data<float>();
              std::transform(x, x + count, a.outputs[i].data<T>(), [](float value) { return static_cast<T>(value); });
            }
          }
        });
      case Op::kScale: {
        const double factor = std::get<ScaleAttributes>(node.attributes).factor;
        return make_kernel(
            node, [factor](const KernelArguments& a) { map<T>(a, [factor](double x) { return factor * x; }); });
      }
      case Op::kGelu:
        if (gelu_by_tanh(node.attributes)) {
          return make_kernel(node, [](const KernelArguments& a) { map<T>(a, tanh_gelu); });
        }
        return make_kernel(node,
                           [](const KernelArguments& a) { map<T>(a, [](double x) { return x * normal_cdf(x); }); });
      case Op::kGeluGrad:
        if (gelu_by_tanh(node.attributes)) {
          return make_kernel(node, [](const KernelArguments& a) {
            map2<T>(a, [](double dy, double x) { return dy * tanh_gelu_slope(x); });
          });
        }
        return make_kernel(node, [](const KernelArguments& a) {
          map2<T>(a, [](double dy, double x) { return dy * (normal_cdf(x) + x * normal_pdf(x)); });
        });
      case Op::kSiluMultiply:
        return make_kernel(
            node, [](const KernelArguments& a) { map2<T>(a, [](double gate, double x) { return silu(gate) * x; }); });
      case Op::kSiluMultiplyGrad:
        return make_kernel(node, [](const KernelArguments& a) { silu_multiply_grad<T>(a); });
      case Op::kTanh:
        return make_kernel(node, [](const KernelArguments& a) { map<T>(a, [](double x) { return std::tanh(x); }); });
      case Op::kTanhGrad:
        return make_kernel(
            node, [](const KernelArguments& a) { map2<T>(a, [](double dy, double y) { return dy * (1.0 - y * y); }); });
      case Op::kRelu:
        return make_kernel(node, [](const KernelArguments& a) { map<T>(a, [](double x) { return x < 0 ? 0 : x; }); });
      case Op::kReluGrad:
        return make_kernel(
            node, [](const KernelArguments& a) { map2<T>(a, [](double dy, double y) { return y > 0 ? dy : 0; }); });
      default: {
        check(node.op == Op::kDropout, "make_elementwise_kernel knows the op");
        const auto attributes = std::get<DropoutAttributes>(node.attributes);
        return make_kernel(node, [attributes](const KernelArguments& a) { dropout<T>(a, attributes); });
      }
    }
  });
}

}  // namespace plimsoll::reference
