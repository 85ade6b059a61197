// relation_loss, directly by its formula: every matrix of relations is computed completely, a row at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// log softmax over the sample's rows j of row . rows[j] / sqrt(d), where both begin at the head's first column.
template <typename T>
std::vector<double> log_relations(const Matrix<const T>& rows, std::int64_t row, std::int64_t begin, std::int64_t end,
                                  std::int64_t column, std::int64_t width) {
  std::vector<double> scores;
  for (std::int64_t j = begin; j < end; ++j) {
    double dot = 0;
    for (std::int64_t c = column; c < column + width; ++c) dot += double{rows[row][c]} * double{rows[j][c]};
    scores.push_back(dot / std::sqrt(static_cast<double>(width)));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  for (double& score : scores) score -= largest + std::log(sum);
  return scores;
}

// The derivative by a score is q - p, and a score belongs to two rows.
template <typename T>
void relation_loss(const KernelArguments& a, const RelationAttributes& attributes) {
  const Matrix<const T> x(a.inputs[0]), teacher(a.inputs[1]);
  const std::int32_t* offsets = a.inputs[2].data<std::int32_t>();
  const double scale = attributes.weight / static_cast<double>(attributes.heads) * *a.inputs[3].data<T>();
  const Matrix<T> grad(a.outputs[1]);
  const std::int64_t width = x.columns() / attributes.heads, wide = teacher.columns() / attributes.heads;
  std::vector<double> sums(static_cast<std::size_t>(x.rows() * x.columns()));
  double loss = 0;
  for (std::int64_t b = 0; b + 1 < a.inputs[2].elements(); ++b) {
    for (std::int64_t head = 0; head < attributes.heads; ++head) {
      for (std::int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
        const auto log_q = log_relations(x, i, offsets[b], offsets[b + 1], head * width, width);
        const auto log_p = log_relations(teacher, i, offsets[b], offsets[b + 1], head * wide, wide);
        for (std::int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
          const auto at = static_cast<std::size_t>(j - offsets[b]);
          loss += std::exp(log_p[at]) * (log_p[at] - log_q[at]);
          const double slope = (std::exp(log_q[at]) - std::exp(log_p[at])) / std::sqrt(static_cast<double>(width));
          for (std::int64_t c = head * width; c < (head + 1) * width; ++c) {
            sums[static_cast<std::size_t>(i * x.columns() + c)] += slope * double{x[j][c]};
            sums[static_cast<std::size_t>(j * x.columns() + c)] += slope * double{x[i][c]};
          }
        }
      }
    }
  }
  for (std::int64_t row = 0; row < a.rows(x.rows()); ++row) {
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      grad[row][c] = static_cast<T>(scale * sums[static_cast<std::size_t>(row * x.columns() + c)]);
    }
  }
  *a.outputs[0].data<T>() = static_cast<T>(scale * loss);
}

}  // namespace

std::unique_ptr<Kernel> make_relation_kernel(const Graph&, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    return make_kernel(node, [attributes = std::get<RelationAttributes>(node.attributes)](const KernelArguments& a) {
      relation_loss<T>(a, attributes);
    });
  });
}

}  // namespace plimsoll::reference
