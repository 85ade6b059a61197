// pair_scores and its gradient: sums over every two rows of a group. join_pairs and its gradient: two rows side by
// side.
#include <cmath>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// Calls visit(head row, tail row, pair row) for every pair.
template <typename Visit>
void for_pairs(std::int64_t rows, std::int64_t group, const Visit& visit) {
  for (std::int64_t head = 0; head < rows; ++head) {
    const std::int64_t first = head / group * group;
    for (std::int64_t t = 0; t < group; ++t) visit(head, first + t, head * group + t);
  }
}

template <typename T>
void pair_scores(const KernelArguments& a, std::int64_t group) {
  const Matrix<const T> heads(a.inputs[0]), tails(a.inputs[1]), head_terms(a.inputs[2]), tail_terms(a.inputs[3]);
  const Matrix<T> y(a.outputs[0]);
  const std::int64_t width = heads.columns();
  for_pairs(heads.rows(), group, [&](std::int64_t h, std::int64_t t, std::int64_t pair) {
    for (std::int64_t c = 0; c < y.columns(); ++c) {
      double sum = double{head_terms[h][c]} + tail_terms[t][c];
      for (std::int64_t p = 0; p < width; ++p) sum += double{heads[h][p]} * tails[t][c * width + p];
      y[pair][c] = static_cast<T>(sum);
    }
  });
}

// Sums each output element in double: the element is one of d inputs[1..], by its row and column.
template <typename T>
void pair_scores_grad(const KernelArguments& a, std::int64_t group) {
  const Matrix<const T> dy(a.inputs[0]), heads(a.inputs[1]), tails(a.inputs[2]);
  const Matrix<T> dheads(a.outputs[0]), dtails(a.outputs[1]), dhead_terms(a.outputs[2]), dtail_terms(a.outputs[3]);
  const std::int64_t width = heads.columns(), classes = dy.columns();
  for (std::int64_t row = 0; row < heads.rows(); ++row) {
    const std::int64_t first = row / group * group;
    // Return the dy of the pair in which this row is the head, or the tail, and row `other` is the other end.
    const auto as_head = [&](std::int64_t other, std::int64_t c) { return double{dy[row * group + other - first][c]}; };
    const auto as_tail = [&](std::int64_t other, std::int64_t c) { return double{dy[other * group + row - first][c]}; };
    for (std::int64_t c = 0; c < classes; ++c) {
      double head_sum = 0, tail_sum = 0;
      for (std::int64_t other = first; other < first + group; ++other) {
        head_sum += as_head(other, c);
        tail_sum += as_tail(other, c);
      }
      dhead_terms[row][c] = static_cast<T>(head_sum);
      dtail_terms[row][c] = static_cast<T>(tail_sum);
    }
    for (std::int64_t p = 0; p < width; ++p) {
      double head_sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        double tail_sum = 0;
        for (std::int64_t other = first; other < first + group; ++other) {
          head_sum += as_head(other, c) * tails[other][c * width + p];
          tail_sum += as_tail(other, c) * heads[other][p];
        }
        dtails[row][c * width + p] = static_cast<T>(tail_sum);
      }
      dheads[row][p] = static_cast<T>(head_sum);
    }
  }
}

template <typename T>
void join_pairs(const KernelArguments& a) {
  const Matrix<const T> x(a.inputs[0]);
  const Matrix<T> y(a.outputs[0]);
  const std::int64_t rows = a.rows(x.rows()), width = x.columns();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < y.columns(); ++c) {
      const std::int64_t part = c / width, k = c % width;
      if (row % 2 == 1 || row + 1 == rows) {
        y[row][c] = T{0};
        continue;
      }
      const T first = x[row][k], second = x[row + 1][k];
      y[row][c] = part == 0 ? first : part == 1 ? second : part == 2 ? std::abs(first - second) : first * second;
    }
  }
}

template <typename T>
void join_pairs_grad(const KernelArguments& a) {
  const Matrix<const T> dy(a.inputs[0]), x(a.inputs[1]);
  const Matrix<T> dx(a.outputs[0]);
  const std::int64_t rows = a.rows(x.rows()), width = x.columns();
  const bool products = dy.columns() == 4 * width;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t pair = row / 2 * 2, other = row % 2 == 0 ? row + 1 : row - 1;
    for (std::int64_t k = 0; k < width; ++k) {
      if (pair + 1 == rows) {
        dx[row][k] = T{0};
        continue;
      }
      double sum = dy[pair][(row - pair) * width + k];
      if (products) {
        const double mine = x[row][k], theirs = x[other][k];
        const double sign = mine > theirs ? 1 : mine < theirs ? -1 : 0;
        sum += sign * dy[pair][2 * width + k] + theirs * dy[pair][3 * width + k];
      }
      dx[row][k] = static_cast<T>(sum);
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_pairs_kernel(const Graph&, const Node& node, DType dtype) {
  if (node.op == Op::kJoinPairs || node.op == Op::kJoinPairsGrad) {
    return for_floating(dtype, [&]<typename T>(T) {
      return node.op == Op::kJoinPairs ? make_kernel(node, join_pairs<T>) : make_kernel(node, join_pairs_grad<T>);
    });
  }
  const std::int64_t group = std::get<PairAttributes>(node.attributes).group;
  return for_floating(dtype, [&]<typename T>(T) {
    return node.op == Op::kPairScores
               ? make_kernel(node, [group](const KernelArguments& a) { pair_scores<T>(a, group); })
               : make_kernel(node, [group](const KernelArguments& a) { pair_scores_grad<T>(a, group); });
  });
}

}  // namespace plimsoll::reference
