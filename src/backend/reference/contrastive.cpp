// contrastive_loss, and the ops by which its gradient is computed chunk by chunk: put_rows and cached_gradient.
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

constexpr std::int32_t kNoGroup = -100;

std::int64_t partner(std::int64_t row) { return row % 2 == 0 ? row + 1 : row - 1; }

// ContrastiveAttributes has the formula. The scratch holds the rows divided by their lengths, these lengths, and the
// logarithm of each row's sum.
template <typename T>
void contrastive_loss(const KernelArguments& a, double temperature) {
  const Matrix<const T> x(a.inputs[0]);
  const std::int32_t* groups = a.inputs[1].data<std::int32_t>();
  const double loss_scale = *a.inputs[2].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t real = a.rows(x.rows()), rows = real / 2 * 2, width = x.columns();
  double* const unit = scratch_doubles(a);
  double* const length = scratch_doubles(a, x.rows() * width);
  double* const log_sum = scratch_doubles(a, x.rows() * (width + 1));
  for (std::int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::int64_t c = 0; c < width; ++c) squares += double{x[row][c]} * x[row][c];
    length[row] = std::max(std::sqrt(squares), 1e-12);
    for (std::int64_t c = 0; c < width; ++c) unit[row * width + c] = x[row][c] / length[row];
  }
  const auto counts = [&](std::int64_t row) { return groups[row] != kNoGroup && groups[row] == groups[partner(row)]; };
  const auto meets = [&](std::int64_t row, std::int64_t other) {
    return other == partner(row) || (groups[other] != kNoGroup && groups[other] != groups[row]);
  };
  const auto score = [&](std::int64_t row, std::int64_t other) {
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += unit[row * width + c] * unit[other * width + c];
    return sum / temperature;
  };
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!counts(row)) continue;
    double sum = 0;  // of exponentials of differences from the partner's score, so that a pair alone has loss 0
    const double of_partner = score(row, partner(row));
    for (std::int64_t other = partner(row) % 2; other < rows; other += 2) {
      if (meets(row, other)) sum += std::exp(score(row, other) - of_partner);
    }
    log_sum[row] = of_partner + std::log(sum);
    loss += std::log(sum) / 2;
  }
  // The derivative of `row`'s share of the loss by its score with `other`.
  const auto slope = [&](std::int64_t row, std::int64_t other, double of_score) {
    if (!counts(row) || !meets(row, other)) return 0.0;
    return (std::exp(of_score - log_sum[row]) - (other == partner(row) ? 1 : 0)) / 2;
  };
  for (std::int64_t row = 0; row < real; ++row) {
    for (std::int64_t c = 0; c < width; ++c) grad[row][c] = T{0};
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    double along = 0;  // of the gradient with respect to the row divided by its length, along that row
    const auto of_unit = [&](std::int64_t c) {
      double sum = 0;
      for (std::int64_t other = partner(row) % 2; other < rows; other += 2) {
        const double s = score(row, other);
        sum += (slope(row, other, s) + slope(other, row, s)) * unit[other * width + c];
      }
      return loss_scale / temperature * sum;
    };
    for (std::int64_t c = 0; c < width; ++c) along += of_unit(c) * unit[row * width + c];
    for (std::int64_t c = 0; c < width; ++c) {
      grad[row][c] = static_cast<T>((of_unit(c) - along * unit[row * width + c]) / length[row]);
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss_scale * loss);
}

template <typename T>
void cached_gradient(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]), table(a.inputs[1]);
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t first = *a.inputs[2].data<std::int32_t>();
  double loss = 0;
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      const T slope = table[first + row][c];
      loss += double{x[row][c]} * slope;
      grad[row][c] = slope;
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(loss);
}

}  // namespace

std::unique_ptr<Kernel> make_contrastive_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    if (node.op == Op::kCachedGradient) return make_kernel(node, cached_gradient<T>);
    const Shape& x = graph.type(node.inputs[0]).shape;
    const double temperature = std::get<ContrastiveAttributes>(node.attributes).temperature;
    const auto scratch = static_cast<std::size_t>(x[0] * (x[1] + 2)) * sizeof(double);
    return make_kernel(node, scratch, [temperature](const KernelArguments& a) { contrastive_loss<T>(a, temperature); });
  });
}

}  // namespace plimsoll::reference
