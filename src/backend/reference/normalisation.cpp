// layer_norm, affine, layer_norm_grad (Ba, Kiros, Hinton 2016; the variance is the biased one), inverse_row_norms.
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// y = x * gamma (+ beta), rounded once; layer_norm and affine agree bit for bit.
template <typename T>
void affine_row(const T* x, const T* gamma, const T* beta, T* y, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    y[c] = static_cast<T>(double{x[c]} * double{gamma[c]} + (beta == nullptr ? 0.0 : double{beta[c]}));
  }
}

// normalized may alias x.
template <typename T>
void layer_norm(const KernelArguments& a, double eps) {
  const Matrix<const T> x(a.inputs[0]);
  const T* gamma = a.inputs[1].data<T>();
  const T* beta = a.inputs[2].data<T>();
  const Matrix<T> y(a.outputs[0]), normalized(a.outputs[1]);
  T* rstd = a.outputs[2].data<T>();
  const std::int64_t width = x.columns();
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t c = 0; c < width; ++c) sum += double{x[row][c]};
    const double mean = sum / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) squares += (x[row][c] - mean) * (x[row][c] - mean);
    const double inverse_sigma = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::int64_t c = 0; c < width; ++c) normalized[row][c] = static_cast<T>((x[row][c] - mean) * inverse_sigma);
    rstd[row] = static_cast<T>(inverse_sigma);
    affine_row<T>(normalized[row], gamma, beta, y[row], width);
  }
}

template <typename T>
void affine(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]);
  const T* const beta = a.inputs.size() > 2 ? a.inputs[2].data<T>() : nullptr;
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    affine_row<T>(x[row], a.inputs[1].data<T>(), beta, y[row], y.columns());
  }
}

// With g = dy * gamma and z = normalized:  dx = rstd * (g - mean(g) - z * mean(g * z)), dgamma = sum over rows of dy *
// z, dbeta = sum over rows of dy. dx may alias dy or normalized.
template <typename T>
void layer_norm_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]), normalized(a.inputs[1]);
  const T* rstd = a.inputs[2].data<T>();
  const T* gamma = a.inputs[3].data<T>();
  const Matrix<T> dx(a.outputs[0]);
  const std::int64_t width = a.inputs[3].elements();
  double* dgamma = scratch_doubles(a);
  double* dbeta = scratch_doubles(a, width);
  std::fill_n(dgamma, 2 * width, 0.0);
  for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
    double sum_g = 0.0, sum_gz = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double g = double{dy[row][c]} * double{gamma[c]};
      sum_g += g;
      sum_gz += g * normalized[row][c];
      dgamma[c] += double{dy[row][c]} * double{normalized[row][c]};
      dbeta[c] += double{dy[row][c]};
    }
    const double mean_g = sum_g / static_cast<double>(width), mean_gz = sum_gz / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) {
      const double g = double{dy[row][c]} * double{gamma[c]};
      dx[row][c] = static_cast<T>(rstd[row] * (g - mean_g - normalized[row][c] * mean_gz));
    }
  }
  for (std::int64_t c = 0; c < width; ++c) {
    a.outputs[1].data<T>()[c] = static_cast<T>(dgamma[c]);
    a.outputs[2].data<T>()[c] = static_cast<T>(dbeta[c]);
  }
}

// One over the norms of the rows of weight[M,K] + factor b[M,R] a[R,K].
template <typename T>
void inverse_row_norms(const KernelArguments& arguments, double factor) {
  const Matrix<const T> weight(arguments.inputs[0]), a(arguments.inputs[1]), b(arguments.inputs[2]);
  T* const inverse = arguments.outputs[0].data<T>();
  for (std::int64_t row = 0; row < weight.rows(); ++row) {
    double squares = 0.0;
    for (std::int64_t column = 0; column < weight.columns(); ++column) {
      double sum = 0.0;
      for (std::int64_t r = 0; r < a.rows(); ++r) sum += double{b[row][r]} * double{a[r][column]};
      const double element = double{weight[row][column]} + factor * sum;
      squares += element * element;
    }
    inverse[row] = static_cast<T>(1.0 / std::sqrt(squares));
  }
}

}  // namespace

std::unique_ptr<Kernel> make_normalisation_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    switch (node.op) {
      case Op::kLayerNorm: {
        const double eps = std::get<LayerNormAttributes>(node.attributes).eps;
        return make_kernel(node, [eps](const KernelArguments& a) { layer_norm<T>(a, eps); });
      }
      case Op::kAffine:
        return make_kernel(node, [](const KernelArguments& a) { affine<T>(a); });
      case Op::kInverseRowNorms: {
        const double factor = std::get<ScaleAttributes>(node.attributes).factor;
        return make_kernel(node, [factor](const KernelArguments& a) { inverse_row_norms<T>(a, factor); });
      }
      default: {
        check(node.op == Op::kLayerNormGrad, "make_normalisation_kernel knows the op");
        const auto width = static_cast<std::size_t>(graph.type(node.inputs[3]).shape.elements());
        return make_kernel(node, 2 * width * sizeof(double), [](const KernelArguments& a) { layer_norm_grad<T>(a); });
      }
    }
  });
}

}  // namespace plimsoll::reference
