// layer_norm, affine, layer_norm_grad (Ba, Kiros, Hinton 2016; the variance is the biased one), rms_norm and its
// gradient, inverse_row_norms.
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"
#include "base/dropout.h"
#include "graph/layer_norm_form.h"

namespace plimsoll::reference {
namespace {

// y = x * gamma (+ beta), rounded once; layer_norm and affine agree bit for bit.
template <typename T>
void affine_row(const T* x, const T* gamma, const T* beta, T* y, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    y[c] = static_cast<T>(double{x[c]} * double{gamma[c]} + (beta == nullptr ? 0.0 : double{beta[c]}));
  }
}

// Applies base/dropout.h to the elements of a row; does nothing without keys among the inputs.
template <typename T>
class RowDropout {
 public:
  RowDropout(const KernelArguments& a, const LayerNormAttributes& attributes)
      : site_(attributes.site),
        threshold_(dropout_threshold(attributes.dropout_p)),
        scale_(dropout_scale(attributes.dropout_p)) {
    if (a.inputs.size() <= LayerNormForm::kRowKeys) return;
    row_keys_ = a.inputs[LayerNormForm::kRowKeys].data<std::int32_t>();
    const std::int32_t* const words = a.inputs[LayerNormForm::kDropoutKey].data<std::int32_t>();
    key_ = {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(words[1])};
  }
  double operator()(std::int64_t row, std::int64_t column, double x) const {
    if (row_keys_ == nullptr) return x;
    const auto sample = static_cast<std::uint32_t>(row_keys_[2 * row]);
    const auto token = static_cast<std::uint32_t>(row_keys_[2 * row + 1]);
    const std::uint32_t bits = hidden_dropout_bits(key_, site_, sample, token, static_cast<std::uint32_t>(column));
    return bits >= threshold_ ? x * scale_ : 0.0;
  }

 private:
  std::uint32_t site_, threshold_;
  double scale_;
  const std::int32_t* row_keys_ = nullptr;
  PhiloxKey key_{};
};

// normalized may alias x or the residual; scratch holds the row that is normalized.
template <typename T>
void layer_norm(const KernelArguments& a, const LayerNormAttributes& attributes) {
  const Matrix<const T> in(a.inputs[0]);
  const T* const residual =
      a.inputs.size() > LayerNormForm::kResidual ? a.inputs[LayerNormForm::kResidual].data<T>() : nullptr;
  const RowDropout<T> drop(a, attributes);
  double* const x = scratch_doubles(a);
  const T* gamma = a.inputs[1].data<T>();
  const T* beta = a.inputs[2].data<T>();
  const Matrix<T> y(a.outputs[0]), normalized(a.outputs[1]);
  T* rstd = a.outputs[2].data<T>();
  const std::int64_t width = in.columns();
  for (std::int64_t row = 0; row < a.rows(in.rows()); ++row) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t c = 0; c < width; ++c) {
      x[c] = drop(row, c, double{in[row][c]}) + (residual == nullptr ? 0.0 : double{residual[row * width + c]});
      sum += x[c];
    }
    const double mean = sum / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double inverse_sigma = 1.0 / std::sqrt(squares / static_cast<double>(width) + attributes.eps);
    for (std::int64_t c = 0; c < width; ++c) normalized[row][c] = static_cast<T>((x[c] - mean) * inverse_sigma);
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
// z, dbeta = sum over rows of dy; the gradient of what was dropped is dx after dropout. dx may alias dy or normalized.
template <typename T>
void layer_norm_grad(const KernelArguments& a, const LayerNormForm& form, const LayerNormAttributes& attributes) {
  const RowDropout<T> drop(a, attributes);
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
      const double d = rstd[row] * (g - mean_g - normalized[row][c] * mean_gz);
      dx[row][c] = static_cast<T>(d);
      if (form.drops) a.outputs[form.of_x()].data<T>()[row * width + c] = static_cast<T>(drop(row, c, d));
    }
  }
  for (std::int64_t c = 0; c < width; ++c) {
    a.outputs[form.dgamma()].data<T>()[c] = static_cast<T>(dgamma[c]);
    a.outputs[form.dbeta()].data<T>()[c] = static_cast<T>(dbeta[c]);
  }
}

// normalized may alias x.
template <typename T>
void rms_norm(const KernelArguments& a, double eps) {
  const Matrix<const T> x(a.inputs[0]);
  const T* const gamma = a.inputs[1].data<T>();
  const Matrix<T> y(a.outputs[0]), normalized(a.outputs[1]), rstd(a.outputs[2]);
  const std::int64_t width = a.inputs[1].elements();
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t group = 0; group < rstd.columns(); ++group) {
      const std::int64_t first = group * width;
      double squares = 0.0;
      for (std::int64_t c = 0; c < width; ++c) squares += double{x[row][first + c]} * double{x[row][first + c]};
      const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
      for (std::int64_t c = 0; c < width; ++c) normalized[row][first + c] = static_cast<T>(x[row][first + c] * inverse);
      rstd[row][group] = static_cast<T>(inverse);
      affine_row<T>(normalized[row] + first, gamma, nullptr, y[row] + first, width);
    }
  }
}

// With g = dy * gamma and z = normalized: dx = rstd * (g - z * mean(g * z)), dgamma = sum over rows and groups of dy *
// z.
template <typename T>
void rms_norm_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]), normalized(a.inputs[1]), rstd(a.inputs[2]);
  const T* const gamma = a.inputs[3].data<T>();
  const Matrix<T> dx(a.outputs[0]);
  const std::int64_t width = a.inputs[3].elements();
  double* const dgamma = scratch_doubles(a);
  std::fill_n(dgamma, width, 0.0);
  for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
    for (std::int64_t group = 0; group < rstd.columns(); ++group) {
      const std::int64_t first = group * width;
      double sum = 0.0;
      for (std::int64_t c = 0; c < width; ++c) {
        const double d = dy[row][first + c], z = normalized[row][first + c];
        sum += d * double{gamma[c]} * z;
        dgamma[c] += d * z;
      }
      const double mean = sum / static_cast<double>(width);
      for (std::int64_t c = 0; c < width; ++c) {
        const double g = double{dy[row][first + c]} * double{gamma[c]};
        dx[row][first + c] = static_cast<T>(rstd[row][group] * (g - normalized[row][first + c] * mean));
      }
    }
  }
  std::transform(dgamma, dgamma + width, a.outputs[1].data<T>(), [](double sum) { return static_cast<T>(sum); });
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
        const auto attributes = std::get<LayerNormAttributes>(node.attributes);
        const auto width = static_cast<std::size_t>(graph.type(node.inputs[1]).shape.elements());
        return make_kernel(node, width * sizeof(double),
                           [attributes](const KernelArguments& a) { layer_norm<T>(a, attributes); });
      }
      case Op::kRmsNorm: {
        const double eps = std::get<RmsNormAttributes>(node.attributes).eps;
        return make_kernel(node, [eps](const KernelArguments& a) { rms_norm<T>(a, eps); });
      }
      case Op::kRmsNormGrad: {
        const auto width = static_cast<std::size_t>(graph.type(node.inputs[3]).shape.elements());
        return make_kernel(node, width * sizeof(double), [](const KernelArguments& a) { rms_norm_grad<T>(a); });
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
        return make_kernel(node, 2 * width * sizeof(double),
                           [form = layer_norm_form(node), attributes = std::get<LayerNormAttributes>(node.attributes)](
                               const KernelArguments& a) { layer_norm_grad<T>(a, form, attributes); });
      }
    }
  });
}

}  // namespace plimsoll::reference
