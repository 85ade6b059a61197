// cached_attention, a query at a time: its scores, their softmax, and the sum of values.
#include <algorithm>
#include <cmath>

#include "backend/reference/loop_kernel.h"
#include "graph/attention_form.h"

namespace plimsoll::reference {
namespace {

// The scratch holds R doubles.
template <typename T>
void cached_attention(const KernelArguments& a, std::int64_t heads, std::int64_t group) {
  const Matrix<const T> q(a.inputs[0]), keys(a.inputs[1]), values(a.inputs[2]);
  const Matrix<const std::int32_t> seen(a.inputs[3]);
  const Matrix<T> output(a.outputs[0]);
  double* const p = scratch_doubles(a);
  const std::int64_t width = q.columns() / heads;
  for (std::int64_t row = 0; row < a.rows(q.rows()); ++row) {
    const std::int64_t begin = seen[row][0], end = seen[row][1];
    check(begin >= 0 && begin < end && end <= keys.rows(), "a row sees rows of the tables");
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t column = head * width, shared = head / group * width;
      for (std::int64_t j = begin; j < end; ++j) {
        double score = 0;
        for (std::int64_t c = 0; c < width; ++c) score += double{q[row][column + c]} * double{keys[j][shared + c]};
        p[j - begin] = score / std::sqrt(static_cast<double>(width));
      }
      const double largest = *std::max_element(p, p + (end - begin));
      double sum = 0;
      for (std::int64_t j = 0; j < end - begin; ++j) sum += p[j] = std::exp(p[j] - largest);
      for (std::int64_t c = 0; c < width; ++c) {
        double value = 0;
        for (std::int64_t j = begin; j < end; ++j) value += p[j - begin] * double{values[j][shared + c]};
        output[row][column + c] = static_cast<T>(value / sum);
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> make_cached_attention_kernel(const Graph& graph, const Node& node, DType dtype) {
  const auto& attributes = std::get<AttentionAttributes>(node.attributes);
  const std::int64_t heads = attributes.heads, group = heads / key_value_heads(attributes);
  const auto scratch = static_cast<std::size_t>(graph.type(node.inputs[1]).shape[0]) * sizeof(double);
  return for_floating(dtype, [&]<typename T>(T) {
    return make_kernel(node, scratch, [=](const KernelArguments& a) { cached_attention<T>(a, heads, group); });
  });
}

}  // namespace plimsoll::reference
