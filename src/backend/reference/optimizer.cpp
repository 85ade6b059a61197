// sum_squares, gradient_norm, adamw, adamw_rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/update_parts.h"

namespace plimsoll::reference {
namespace {

template <typename T>
void sum_squares(const KernelArguments& a) {
  for (std::size_t t = 0; t < a.inputs.size(); ++t) {
    const Matrix<const T> x(a.inputs[t]);
    const T* elements = a.inputs[t].data<T>();
    const std::int64_t count = a.rows(x.rows()) * x.columns();
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += double{elements[i]} * double{elements[i]};
    *a.outputs[t].data<double>() = sum;
  }
}

// norm = sqrt of the summed squares; clip is computed as in torch.nn.utils.clip_grad_norm_, in double, rounded once.
void gradient_norm(const KernelArguments& a, bool unscales) {
  const double max_norm = *a.inputs[0].data<float>();
  const double unscale = unscales ? double{*a.inputs[1].data<float>()} : 1.0;
  double sum = 0;
  for (const TensorView& squares : a.inputs.subspan(unscales ? 2 : 1)) sum += *squares.data<double>();
  const double norm = std::sqrt(sum) * unscale;
  const double clip = max_norm <= 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
  *a.outputs[0].data<float>() = static_cast<float>(norm);
  *a.outputs[1].data<float>() =
      std::isfinite(norm) ? static_cast<float>(clip * unscale) : std::numeric_limits<float>::quiet_NaN();
}

// Decoupled weight decay (Loshchilov, Hutter 2019) with the arithmetic of torch.optim.AdamW's single-tensor path:
// scalars are double and rounded to T where they meet a tensor; every tensor operation is in T. The gradient is
// multiplied by clip first.
template <typename T>
class AdamWStep {
 public:
  // `tail` holds learning_rate, step and clip.
  AdamWStep(const AdamWAttributes& attributes, std::span<const TensorView> tail) {
    const double learning_rate = attributes.rate_factor * double{*tail[0].data<float>()};
    const double step = *tail[1].data<std::int32_t>();
    const double bias_correction1 = 1.0 - std::pow(attributes.beta1, step);
    const double bias_correction2 = 1.0 - std::pow(attributes.beta2, step);
    clip_ = static_cast<T>(*tail[2].data<float>());
    decay_ = static_cast<T>(1.0 - learning_rate * attributes.weight_decay);
    one_minus_beta1_ = static_cast<T>(1.0 - attributes.beta1);
    beta2_ = static_cast<T>(attributes.beta2);
    one_minus_beta2_ = static_cast<T>(1.0 - attributes.beta2);
    sqrt_bias_correction2_ = static_cast<T>(std::sqrt(bias_correction2));
    eps_ = static_cast<T>(attributes.eps);
    step_size_ = static_cast<T>(-learning_rate / bias_correction1);
  }

  void operator()(T& parameter, T& m, T& v, T gradient) const {
    const T g = gradient * clip_;
    parameter *= decay_;
    m += one_minus_beta1_ * (g - m);
    v = v * beta2_ + one_minus_beta2_ * g * g;
    const T denominator = std::sqrt(v) / sqrt_bias_correction2_ + eps_;
    parameter += step_size_ * m / denominator;
  }

 private:
  T clip_, decay_, one_minus_beta1_, beta2_, one_minus_beta2_, sqrt_bias_correction2_, eps_, step_size_;
};

// The moments of a block are decoded during the computation, and stored afterwards in the node's form.
template <typename T>
void adamw(const KernelArguments& a, const UpdateForm& form, const AdamWAttributes& attributes) {
  const AdamWStep<T> step(attributes, a.inputs.subspan(form.scalars()));
  const ParameterParts<T> parameter(form, a.outputs);
  const auto states = a.outputs.subspan(form.states());
  const MomentParts<T> moment(form.coded, kSignedCodes, states);
  const MomentParts<T> square(form.coded, kUnsignedCodes, states.subspan(form.state_parts / 2));
  const Shape& shape = a.outputs[0].shape();
  // Every row of a table moves: rows that are absent have gradient 0, but their m and v decay.
  const GradientRows<T> gradient(form.by_rows, form.by_rows ? shape[1] : shape.elements(), shape[0],
                                 a.inputs.subspan(form.gradient()));
  const std::int64_t start = attributes.first - attributes.parameter_first;  // first element of the updated part
  const std::int64_t gradient_first = attributes.first - (form.by_rows ? 0 : attributes.gradient_first);
  const std::int64_t moments_first = attributes.whole_moments ? attributes.first : 0;
  const std::int64_t elements = attributes.count > 0 ? attributes.count : shape.elements();
  for (std::int64_t first = 0; first < elements; first += kStateBlock) {
    const std::int64_t count = std::min(kStateBlock, elements - first);
    T m[kStateBlock], v[kStateBlock];
    moment.load(moments_first + first, count, m);
    square.load(moments_first + first, count, v);
    for (std::int64_t i = 0; i < count; ++i) {
      T value = parameter.get(start + first + i);
      step(value, m[i], v[i], gradient.at(gradient_first + first + i));
      parameter.set(start + first + i, value);
    }
    moment.store(moments_first + first, count, m);
    square.store(moments_first + first, count, v);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_optimizer_kernel(const Graph& graph, const Node& node, DType dtype) {
  if (node.op == Op::kGradientNorm) {
    const bool unscales = std::get<GradientNormAttributes>(node.attributes).unscales;
    return make_kernel(node, [unscales](const KernelArguments& a) { gradient_norm(a, unscales); });
  }
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kSumSquares) return make_kernel(node, sum_squares<T>);
    check(node.op == Op::kAdamW || node.op == Op::kAdamWRows, "make_optimizer_kernel knows the op");
    const auto attributes = std::get<AdamWAttributes>(node.attributes);
    const UpdateForm form = update_form(graph, node);
    return make_kernel(node, [=](const KernelArguments& a) { adamw<T>(a, form, attributes); });
  });
}

}  // namespace plimsoll::reference
