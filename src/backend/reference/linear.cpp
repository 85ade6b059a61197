// linear and linear_int8, linear_add and linear's three gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// y[n,M] = x[n,K] weight[M,K]^T + bias[M]
template <typename T>
void linear(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]), weight(a.inputs[1]);
  const T* bias = a.inputs.size() > 2 ? a.inputs[2].data<T>() : nullptr;
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t m = 0; m < weight.rows(); ++m) {
      double sum = bias == nullptr ? 0.0 : double{bias[m]};
      for (std::int64_t k = 0; k < x.columns(); ++k) sum += double{x[row][k]} * double{weight[m][k]};
      y[row][m] = static_cast<T>(sum);
    }
  }
}

// y[n,M] = addend[n,M] + x[n,K] weight[M,K]^T; y may alias addend.
template <typename T>
void linear_add(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]), weight(a.inputs[1]), addend(a.inputs[2]);
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t m = 0; m < weight.rows(); ++m) {
      double sum = double{addend[row][m]};
      for (std::int64_t k = 0; k < x.columns(); ++k) sum += double{x[row][k]} * double{weight[m][k]};
      y[row][m] = static_cast<T>(sum);
    }
  }
}

// Returns a row's largest magnitude in float, NaN if the row is not finite. Backends agree on every code because each
// computes exactly this.
template <typename T>
float largest_magnitude(const T* row, std::int64_t columns) {
  float largest = 0;
  for (std::int64_t k = 0; k < columns; ++k) {
    const float magnitude = std::abs(static_cast<float>(row[k]));
    if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, magnitude);
  }
  return largest;
}
template <typename T>
double code_of(T element, float largest) {
  const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
  return std::nearbyint(static_cast<float>(element) * inverse);
}

// Writes the codes of a matrix's first rows, and after each row's codes the factor that turns them into numbers.
template <typename T>
void encode_rows(const Matrix<const T>& from, std::int64_t rows, double* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float largest = largest_magnitude(from[row], from.columns());
    for (std::int64_t k = 0; k < from.columns(); ++k) *to++ = code_of(from[row][k], largest);
    *to++ = double{largest} / 127;
  }
}

// y[n,M] = the codes of x's rows times those of weight's, each sum times both rows' factors, + bias[M]. The scratch
// holds the codes and factors of both.
template <typename T>
void linear_int8(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]), weight(a.inputs[1]);
  const T* bias = a.inputs.size() > 2 ? a.inputs[2].data<T>() : nullptr;
  const Matrix<T> y(a.outputs[0]);
  const std::int64_t columns = x.columns(), rows = a.rows(x.rows());
  double* const weight_codes = scratch_doubles(a);
  double* const x_codes = scratch_doubles(a, weight.rows() * (columns + 1));
  encode_rows(weight, weight.rows(), weight_codes);
  encode_rows(x, rows, x_codes);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* const of_x = x_codes + row * (columns + 1);
    for (std::int64_t m = 0; m < weight.rows(); ++m) {
      const double* const of_weight = weight_codes + m * (columns + 1);
      double sum = 0;
      for (std::int64_t k = 0; k < columns; ++k) sum += of_x[k] * of_weight[k];
      y[row][m] =
          static_cast<T>(sum * (of_x[columns] * of_weight[columns]) + (bias == nullptr ? 0.0 : double{bias[m]}));
    }
  }
}

// dx[n,K] = dy[n,M] weight[M,K] (+ addend[n,K]); dx may alias addend.
template <typename T>
void linear_input_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]), weight(a.inputs[1]);
  const T* const addend = a.inputs.size() > 2 ? a.inputs[2].data<T>() : nullptr;
  const Matrix<T> dx(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
    for (std::int64_t k = 0; k < weight.columns(); ++k) {
      double sum = addend == nullptr ? 0.0 : double{addend[row * weight.columns() + k]};
      for (std::int64_t m = 0; m < weight.rows(); ++m) sum += double{dy[row][m]} * double{weight[m][k]};
      dx[row][k] = static_cast<T>(sum);
    }
  }
}

// dweight[M,K] = dy[n,M]^T x[n,K] (+ sum[M,K] unless keep is 0; sum aliases dweight)
template <typename T>
void linear_weight_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]), x(a.inputs[1]);
  const bool adds = a.inputs.size() == 3 || (a.inputs.size() > 3 && *a.inputs[3].data<std::int32_t>() != 0);
  const Matrix<T> dweight(a.outputs[0]);
  const std::int64_t rows = a.rows(dy.rows());
  for (std::int64_t m = 0; m < a.outputs[0].shape()[0]; ++m) {
    for (std::int64_t k = 0; k < a.outputs[0].shape()[1]; ++k) {
      double sum = adds ? double{dweight[m][k]} : 0.0;
      for (std::int64_t row = 0; row < rows; ++row) sum += double{dy[row][m]} * double{x[row][k]};
      dweight[m][k] = static_cast<T>(sum);
    }
  }
}

// dbias[M] = column sums of dy[n,M]
template <typename T>
void bias_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]);
  T* dbias = a.outputs[0].data<T>();
  for (std::int64_t m = 0; m < a.outputs[0].elements(); ++m) {
    double sum = 0.0;
    for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) sum += double{dy[row][m]};
    dbias[m] = static_cast<T>(sum);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_linear_kernel(const Graph& graph, const Node& node, DType dtype) {
  const auto code_bytes = [&] {
    const Shape &x = graph.type(node.inputs[0]).shape, &weight = graph.type(node.inputs[1]).shape;
    return static_cast<std::size_t>((x[0] + weight[0]) * (weight[1] + 1)) * sizeof(double);
  };
  return for_floating(dtype, [&]<typename T>(T) {
    switch (node.op) {
      case Op::kLinear:
        return make_kernel(node, [](const KernelArguments& a) { linear<T>(a); });
      case Op::kLinearAdd:
        return make_kernel(node, [](const KernelArguments& a) { linear_add<T>(a); });
      case Op::kLinearInt8:
        return make_kernel(node, code_bytes(), [](const KernelArguments& a) { linear_int8<T>(a); });
      case Op::kLinearInputGrad:
        return make_kernel(node, [](const KernelArguments& a) { linear_input_grad<T>(a); });
      case Op::kLinearWeightGrad:
        return make_kernel(node, [](const KernelArguments& a) { linear_weight_grad<T>(a); });
      default:
        check(node.op == Op::kBiasGrad, "make_linear_kernel knows the op");
        return make_kernel(node, [](const KernelArguments& a) { bias_grad<T>(a); });
    }
  });
}

}  // namespace plimsoll::reference
