// adafactor, adafactor_rows: Shazeer, Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", with
// the choices of the `transformers` Trainer's --optim adafactor: no first moment, no relative steps, no scaling by the
// parameter; decoupled weight decay.
//
// Only the row means r and column means c of the squared gradient (+ eps) are kept, as moving averages; its estimate is
// r c^T / mean(r). The states define the stack of matrices (graph/update_form.h). The update is the gradient over the
// root of the estimate, scaled down if its root mean square exceeds clip_threshold over the whole tensor.
#include <algorithm>
#include <cmath>

#include "backend/reference/update_parts.h"

namespace plimsoll::reference {
namespace {

template <typename T>
class Adafactor {
 public:
  Adafactor(const UpdateForm& form, const MatrixStack& stack, const AdafactorAttributes& attributes,
            const KernelArguments& a)
      : attributes_(attributes),
        parameter_(form, a.outputs),
        matrix_rows_(stack.rows),
        width_(stack.columns),
        rows_(width_ == 0 ? 0 : parameter_.elements() / width_),
        gradient_(form.by_rows, width_, rows_, a.inputs.subspan(form.gradient())),
        states_(a.outputs.subspan(form.states())) {
    const auto scalars = a.inputs.subspan(form.scalars());
    learning_rate_ = attributes.rate_factor * double{*scalars[0].data<float>()};
    const double step = *scalars[1].data<std::int32_t>();
    const double decay = 1.0 - std::pow(step, attributes.decay_rate);
    decay_ = static_cast<T>(decay);
    one_minus_decay_ = static_cast<T>(1.0 - decay);
    clip_ = static_cast<T>(*scalars[2].data<float>());
    factored_ = form.state_parts == 2;
  }

  void run() const {
    if (factored_) {
      average_rows();
      average_columns();
    } else {
      for (std::int64_t i = 0; i < width_; ++i) average(states_[0].data<T>()[i], square(i));
    }
    double squares = 0;
    for_each_unit([&](std::int64_t, T unit) { squares += double{unit} * double{unit}; });
    const double rms = std::sqrt(squares / static_cast<double>(parameter_.elements()));
    const T divisor = static_cast<T>(std::max(1.0, rms / attributes_.clip_threshold));
    const T rate = static_cast<T>(learning_rate_);
    const T decay = static_cast<T>(learning_rate_ * attributes_.weight_decay);
    for_each_unit([&](std::int64_t i, T unit) {
      const T p = parameter_.get(i);
      parameter_.set(i, p - decay * p - unit / divisor * rate);
    });
  }

 private:
  std::int64_t matrix_rows() const { return matrix_rows_; }
  T gradient(std::int64_t i) const { return gradient_.at(i) * clip_; }
  double square(std::int64_t i) const { return double{gradient(i)} * double{gradient(i)} + attributes_.eps; }
  void average(T& state, double mean) const { state = state * decay_ + one_minus_decay_ * static_cast<T>(mean); }

  void average_rows() const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      double sum = 0;
      for (std::int64_t c = 0; c < width_; ++c) sum += square(row * width_ + c);
      average(states_[0].data<T>()[row], sum / static_cast<double>(width_));
    }
  }
  void average_columns() const {
    for (std::int64_t matrix = 0; matrix < rows_ / matrix_rows(); ++matrix) {
      for (std::int64_t c = 0; c < width_; ++c) {
        double sum = 0;
        for (std::int64_t row = 0; row < matrix_rows(); ++row) {
          sum += square((matrix * matrix_rows() + row) * width_ + c);
        }
        average(states_[1].data<T>()[matrix * width_ + c], sum / static_cast<double>(matrix_rows()));
      }
    }
  }

  // Calls body(element, the gradient over the root of the estimate of its square).
  template <typename Body>
  void for_each_unit(const Body& body) const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const T row_part = factored_ ? row_factor(row) : T{1};
      const T* means = states_[factored_ ? 1 : 0].data<T>() + (factored_ ? row / matrix_rows() * width_ : 0);
      for (std::int64_t c = 0; c < width_; ++c) {
        body(row * width_ + c, row_part * (T{1} / std::sqrt(means[c])) * gradient(row * width_ + c));
      }
    }
  }
  T row_factor(std::int64_t row) const {
    const T* means = states_[0].data<T>() + row / matrix_rows() * matrix_rows();
    double sum = 0;
    for (std::int64_t m = 0; m < matrix_rows(); ++m) sum += double{means[m]};
    const T mean = static_cast<T>(sum / static_cast<double>(matrix_rows()));
    return T{1} / std::sqrt(states_[0].data<T>()[row] / mean);
  }

  AdafactorAttributes attributes_;
  ParameterParts<T> parameter_;
  std::int64_t matrix_rows_, width_, rows_;
  GradientRows<T> gradient_;
  std::span<const TensorView> states_;
  double learning_rate_;
  T decay_, one_minus_decay_, clip_;
  bool factored_;
};

}  // namespace

std::unique_ptr<Kernel> make_adafactor_kernel(const Graph& graph, const Node& node, DType dtype) {
  const UpdateForm form = update_form(graph, node);
  const MatrixStack stack = matrix_stack(graph, node);
  const auto attributes = std::get<AdafactorAttributes>(node.attributes);
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return make_kernel(node, [=](const KernelArguments& a) { Adafactor<T>(form, stack, attributes, a).run(); });
  });
}

}  // namespace plimsoll::reference
