// layer_norm, layer_norm_affine, layer_norm_grad (Ba, Kiros, Hinton 2016; the variance is the biased one).
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// y = normalized * gamma + beta, rounded once; layer_norm and layer_norm_affine agree bit for bit.
template <typename T>
void affine_row(const T* normalized, const T* gamma, const T* beta, T* y, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    y[c] = static_cast<T>(double{normalized[c]} * double{gamma[c]} + double{beta[c]});
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
void layer_norm_affine(const KernelArguments& a) {
  const Matrix<const T> normalized(a.inputs[0]);
  const Matrix<T> y(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(y.rows()); ++row) {
    affine_row<T>(normalized[row], a.inputs[1].data<T>(), a.inputs[2].data<T>(), y[row], y.columns());
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

}  // namespace

std::unique_ptr<Kernel> make_normalisation_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    switch (node.op) {
      case Op::kLayerNorm: {
        const double eps = std::get<LayerNormAttributes>(node.attributes).eps;
        return make_kernel(node, [eps](const KernelArguments& a) { layer_norm<T>(a, eps); });
      }
      case Op::kLayerNormAffine:
        return make_kernel(node, [](const KernelArguments& a) { layer_norm_affine<T>(a); });
      default: {
        check(node.op == Op::kLayerNormGrad, "make_normalisation_kernel knows the op");
        const auto width = static_cast<std::size_t>(graph.type(node.inputs[3]).shape.elements());
        return make_kernel(node, 2 * width * sizeof(double), [](const KernelArguments& a) { layer_norm_grad<T>(a); });
      }
    }
  });
}

}  // namespace plimsoll::reference
