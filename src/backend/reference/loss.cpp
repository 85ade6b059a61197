// The losses: each computes the sum and its gradient in one pass.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

constexpr std::int32_t kIgnoredLabel = -100;

template <typename T>
void label_scores(const KernelArguments& a) {
  const Matrix<const T> logits(a.inputs[0]);
  const std::int32_t* labels = a.inputs[1].data<std::int32_t>();
  const Matrix<T> scores(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    const T *begin = logits[row], *end = begin + logits.columns();
    if (labels[row] == kIgnoredLabel) {
      scores[row][0] = scores[row][1] = T{0};
      continue;
    }
    const T* const largest = std::max_element(begin, end);
    double sum = 0;
    for (const T* logit = begin; logit != end; ++logit) sum += std::exp(double{*logit} - double{*largest});
    scores[row][0] = static_cast<T>(double{*largest} + std::log(sum) - double{begin[labels[row]]});
    scores[row][1] = static_cast<T>(largest - begin == labels[row]);
  }
}

template <typename T>
void softmax_sums(const KernelArguments& a) {
  const Matrix<const T> logits(a.inputs[0]);
  const Matrix<T> sums(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    const T *begin = logits[row], *end = begin + logits.columns();
    const T largest = *std::max_element(begin, end);
    double sum = 0;
    for (const T* logit = begin; logit != end; ++logit) sum += std::exp(double{*logit} - double{largest});
    sums[row][0] = largest;
    sums[row][1] = static_cast<T>(sum);
  }
}

template <typename T>
void cross_entropy_part(const KernelArguments& a, std::int64_t first) {
  const Matrix<const T> logits(a.inputs[0]), sums(a.inputs[2]);
  const std::int32_t* labels = a.inputs[1].data<std::int32_t>();
  const double loss_scale = *a.inputs[3].data<T>();
  const Matrix<T> grad(a.outputs[0]);
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    const double largest = sums[row][0], sum = sums[row][1];
    for (std::int64_t c = 0; c < logits.columns(); ++c) {
      const double probability = std::exp(double{logits[row][c]} - largest) / sum;
      const double wanted = first + c == labels[row] ? 1 : 0;
      grad[row][c] = static_cast<T>(labels[row] == kIgnoredLabel ? 0 : loss_scale * (probability - wanted));
    }
  }
}

// CrossEntropyAttributes has the formula; rows whose label is -100 have no loss and gradient 0. grad may alias logits.
//
// The loss of a row is the sum over classes c of share_c l_c with l_c = log_sum_exp - logits_c, so its derivative with
// respect to logits_k is (sum of shares) p_k - share_k. With a gamma it is w (1 - p)^gamma l of the label's p =
// exp(-l), whose derivative by l is w ((1 - p)^gamma + gamma p (1 - p)^(gamma - 1) l).
template <typename T>
void cross_entropy(const KernelArguments& a, const CrossEntropyAttributes& attributes) {
  const Matrix<const T> logits(a.inputs[0]);
  const std::int32_t* labels = a.inputs[1].data<std::int32_t>();
  const double loss_scale = *a.inputs[2].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t classes = logits.columns();
  const auto weight = [&a](std::int64_t c) { return a.inputs.size() > 3 ? double{a.inputs[3].data<T>()[c]} : 1.0; };
  std::vector<double> shares(static_cast<std::size_t>(classes));
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
    const double of_label = log_sum_exp - logits[row][label];
    double factor = 1;
    if (attributes.focal_gamma > 0) {
      const double gamma = attributes.focal_gamma, p = std::exp(-of_label), rest = -std::expm1(-of_label);
      loss += weight(label) * std::pow(rest, gamma) * of_label;
      factor = rest > 0 ? std::pow(rest, gamma) + gamma * p * std::pow(rest, gamma - 1) * of_label : 0;
    }
    const double smoothing = attributes.label_smoothing;
    double all_shares = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      double& share = shares[static_cast<std::size_t>(c)];
      share = (c == label ? (1 - smoothing) * weight(c) : 0) + smoothing / static_cast<double>(classes) * weight(c);
      all_shares += share;
      if (attributes.focal_gamma == 0) loss += share == 0 ? 0 : share * (log_sum_exp - logits[row][c]);
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const double probability = std::exp(logits[row][c] - log_sum_exp);
      grad[row][c] =
          static_cast<T>(loss_scale * factor * (all_shares * probability - shares[static_cast<std::size_t>(c)]));
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss_scale * loss);
}

// An element's loss and its derivative.
std::pair<double, double> element_loss(ElementLossAttributes::Kind kind, double x, double y) {
  if (kind == ElementLossAttributes::Kind::kSquaredError) return {(x - y) * (x - y), 2 * (x - y)};
  return {std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x))), 1 / (1 + std::exp(-x)) - y};
}

template <typename T>
void element_losses(const KernelArguments& a, const ElementLossAttributes& attributes) {
  const Matrix<const T> logits(a.inputs[0]), targets(a.inputs[1]);
  const double loss_scale = attributes.weight * *a.inputs[2].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  double sum = 0;
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    for (std::int64_t c = 0; c < logits.columns(); ++c) {
      const auto [loss, slope] = element_loss(attributes.kind, logits[row][c], targets[row][c]);
      sum += loss;
      grad[row][c] = static_cast<T>(loss_scale * slope);
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss_scale * sum);
}

template <typename T>
void span_cross_entropy(const KernelArguments& a) {
  const Matrix<const T> logits(a.inputs[0]);
  const std::int32_t* positions = a.inputs[1].data<std::int32_t>();
  const std::int32_t* offsets = a.inputs[2].data<std::int32_t>();
  const double loss_scale = *a.inputs[3].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t columns = logits.columns(), samples = a.inputs[1].shape()[0];
  double loss = 0.0;
  for (std::int64_t b = 0; b < samples; ++b) {
    const std::int64_t begin = offsets[b], end = offsets[b + 1];
    for (std::int64_t k = 0; begin < end && k < columns; ++k) {
      const std::int32_t position = positions[b * columns + k];
      if (position == kIgnoredLabel) {
        for (std::int64_t row = begin; row < end; ++row) grad[row][k] = T{0};
        continue;
      }
      check(position >= 0 && begin + position < end, "a position is -100 or a row of its sample");
      double largest = logits[begin][k];
      for (std::int64_t row = begin; row < end; ++row) largest = std::max(largest, double{logits[row][k]});
      double sum = 0.0;
      for (std::int64_t row = begin; row < end; ++row) sum += std::exp(logits[row][k] - largest);
      const double log_sum_exp = largest + std::log(sum);
      loss += log_sum_exp - logits[begin + position][k];
      for (std::int64_t row = begin; row < end; ++row) {
        const double probability = std::exp(logits[row][k] - log_sum_exp);
        grad[row][k] = static_cast<T>(loss_scale * (probability - (row == begin + position ? 1.0 : 0.0)));
      }
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss_scale * loss);
}

// log(sum of exp(row[c] / temperature))
template <typename T>
double log_sum_exp_of(const T* row, std::int64_t count, double temperature) {
  double largest = row[0] / temperature;
  for (std::int64_t c = 1; c < count; ++c) largest = std::max(largest, row[c] / temperature);
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += std::exp(row[c] / temperature - largest);
  return largest + std::log(sum);
}

// With p of the teacher and q of the logits, both at the temperature t, a row's divergence is the sum of p log(p / q),
// and its derivative by a logit is (q - p) / t.
template <typename T>
void soft_cross_entropy(const KernelArguments& a, const SoftTargetAttributes& attributes) {
  const Matrix<const T> logits(a.inputs[0]), teacher(a.inputs[1]);
  const std::int32_t* labels = a.inputs[2].data<std::int32_t>();
  const double t = attributes.temperature, scale = attributes.weight * *a.inputs[3].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t classes = logits.columns();
  double loss = 0;
  for (std::int64_t row = 0; row < a.rows(logits.rows()); ++row) {
    if (labels[row] == kIgnoredLabel) {
      std::fill_n(grad[row], classes, T{0});
      continue;
    }
    const double of_logits = log_sum_exp_of(logits[row], classes, t),
                 of_teacher = log_sum_exp_of(teacher[row], classes, t);
    for (std::int64_t c = 0; c < classes; ++c) {
      const double log_q = logits[row][c] / t - of_logits, log_p = teacher[row][c] / t - of_teacher;
      loss += std::exp(log_p) * (log_p - log_q);
      grad[row][c] = static_cast<T>(scale * t * (std::exp(log_q) - std::exp(log_p)));
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(scale * t * t * loss);
}

}  // namespace

std::unique_ptr<Kernel> make_loss_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    switch (node.op) {
      case Op::kLabelScores:
        return make_kernel(node, [](const KernelArguments& a) { label_scores<T>(a); });
      case Op::kSoftmaxSums:
        return make_kernel(node, [](const KernelArguments& a) { softmax_sums<T>(a); });
      case Op::kCrossEntropyPart:
        return make_kernel(node, [first = std::get<ClassPartAttributes>(node.attributes).first](
                                     const KernelArguments& a) { cross_entropy_part<T>(a, first); });
      case Op::kElementLoss:
        return make_kernel(node, [attributes = std::get<ElementLossAttributes>(node.attributes)](
                                     const KernelArguments& a) { element_losses<T>(a, attributes); });
      case Op::kSoftCrossEntropy:
        return make_kernel(node, [attributes = std::get<SoftTargetAttributes>(node.attributes)](
                                     const KernelArguments& a) { soft_cross_entropy<T>(a, attributes); });
      case Op::kSpanCrossEntropy:
        return make_kernel(node, [](const KernelArguments& a) { span_cross_entropy<T>(a); });
      default:
        check(node.op == Op::kCrossEntropy, "make_loss_kernel knows the op");
        return make_kernel(node, [attributes = std::get<CrossEntropyAttributes>(node.attributes)](
                                     const KernelArguments& a) { cross_entropy<T>(a, attributes); });
    }
  });
}

}  // namespace plimsoll::reference
