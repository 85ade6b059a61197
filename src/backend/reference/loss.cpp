// cross_entropy computes the summed loss and its gradient in one pass.
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

// loss = loss_scale * sum over labelled rows of (log sum exp(logits) - logits[label]); grad = loss_scale * (softmax -
// one hot of label), 0 in rows whose label is -100. grad may alias logits.
template <typename T>
void cross_entropy(const KernelArguments& a) {
  const Matrix<const T> logits(a.inputs[0]);
  const std::int32_t* labels = a.inputs[1].data<std::int32_t>();
  const double loss_scale = *a.inputs[2].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t classes = logits.columns();
  double loss = 0.0;
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    const std::int32_t label = labels[row];
    if (label == kIgnoredLabel) {
      std::fill_n(grad[row], classes, T{0});
      continue;
    }
    check(label >= 0 && label < classes, "a label is -100 or a class");
    double largest = logits[row][0];
    for (std::int64_t c = 1; c < classes; ++c) largest = std::max(largest, double{logits[row][c]});
    double sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[row][c] - largest);
    const double log_sum_exp = largest + std::log(sum);
    loss += log_sum_exp - logits[row][label];
    for (std::int64_t c = 0; c < classes; ++c) {
      const double probability = std::exp(logits[row][c] - log_sum_exp);
      grad[row][c] = static_cast<T>(loss_scale * (probability - (c == label ? 1.0 : 0.0)));
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss_scale * loss);
}

}  // namespace

std::unique_ptr<Kernel> make_loss_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    check(node.op == Op::kCrossEntropy, "make_loss_kernel knows the op");
    return make_kernel(node, [](const KernelArguments& a) { cross_entropy<T>(a); });
  });
}

}  // namespace plimsoll::reference
