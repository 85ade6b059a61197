// Gradients of an embedding as (ids ascending, count, rows): embedding_row_grad computes one, merge_row_grads adds two.
#include <algorithm>

#include "backend/reference/loop_kernel.h"

namespace plimsoll::reference {
namespace {

// The scratch holds D doubles and n row numbers. Rows of one id are summed in row order; padding_idx gets none.
template <typename T>
void embedding_row_grad(const KernelArguments& a, std::int64_t padding_idx) {
  const Matrix<const T> dy(a.inputs[0]);
  const std::int32_t* ids = a.inputs[1].data<std::int32_t>();
  std::int32_t* distinct = a.outputs[0].data<std::int32_t>();
  const Matrix<T> rows(a.outputs[2]);
  double* sum = scratch_doubles(a);
  auto* order = reinterpret_cast<std::int32_t*>(scratch_doubles(a, dy.columns()));

  std::int64_t length = 0;
  for (std::int64_t row = 0; row < a.rows(dy.rows()); ++row) {
    if (ids[row] != padding_idx) order[length++] = static_cast<std::int32_t>(row);
  }
  std::sort(order, order + length, [ids](std::int32_t left, std::int32_t right) {
    return ids[left] != ids[right] ? ids[left] < ids[right] : left < right;
  });
  std::int32_t count = 0;
  for (std::int64_t i = 0; i < length; ++count) {
    const std::int32_t id = ids[order[i]];
    std::fill_n(sum, dy.columns(), 0.0);
    for (; i < length && ids[order[i]] == id; ++i) {
      for (std::int64_t c = 0; c < dy.columns(); ++c) sum[c] += double{dy[order[i]][c]};
    }
    distinct[count] = id;
    for (std::int64_t c = 0; c < dy.columns(); ++c) rows[count][c] = static_cast<T>(sum[c]);
  }
  *a.outputs[1].data<std::int32_t>() = count;
}

// The union is written from its end, so it never overwrites rows of the sum that are still to be read.
template <typename T>
void merge_row_grads(const KernelArguments& a) {
  std::int32_t* sum_ids = a.outputs[0].data<std::int32_t>();
  std::int32_t* sum_count = a.outputs[1].data<std::int32_t>();
  const Matrix<T> sum_rows(a.outputs[2]);
  const std::int32_t* ids = a.inputs[3].data<std::int32_t>();
  const std::int64_t count = *a.inputs[4].data<std::int32_t>();
  const Matrix<const T> rows(a.inputs[5]);
  const bool keep = *a.inputs[6].data<std::int32_t>() != 0;
  const std::int64_t old_count = keep ? *sum_count : 0;

  std::int64_t shared = 0;
  for (std::int64_t i = 0, j = 0; i < old_count && j < count;) {
    shared += sum_ids[i] == ids[j] ? 1 : 0;
    const bool advance_i = sum_ids[i] <= ids[j], advance_j = ids[j] <= sum_ids[i];
    i += advance_i ? 1 : 0;
    j += advance_j ? 1 : 0;
  }
  const std::int64_t merged = old_count + count - shared;
  check(merged <= sum_rows.rows(), "the capacity of a row gradient holds every row of an update");

  for (std::int64_t i = old_count - 1, j = count - 1, to = merged - 1; to >= 0; --to) {
    const bool from_sum = i >= 0 && (j < 0 || sum_ids[i] >= ids[j]);
    const bool from_added = j >= 0 && (i < 0 || ids[j] >= sum_ids[i]);
    const std::int32_t id = from_sum ? sum_ids[i] : ids[j];
    for (std::int64_t c = 0; c < sum_rows.columns(); ++c) {
      const double old_value = from_sum ? double{sum_rows[i][c]} : 0.0;
      const double added = from_added ? double{rows[j][c]} : 0.0;
      sum_rows[to][c] = static_cast<T>(old_value + added);
    }
    sum_ids[to] = id;
    i -= from_sum ? 1 : 0;
    j -= from_added ? 1 : 0;
  }
  *sum_count = static_cast<std::int32_t>(merged);
}

}  // namespace

std::unique_ptr<Kernel> make_row_gradient_kernel(const Graph& graph, const Node& node, DType dtype) {
  return for_floating(dtype, [&]<typename T>(T) {
    if (node.op == Op::kEmbeddingRowGrad) {
      const std::int64_t padding_idx = std::get<EmbeddingAttributes>(node.attributes).padding_idx;
      const Shape& shape = graph.type(node.inputs[0]).shape;
      const auto bytes = static_cast<std::size_t>(shape[1]) * sizeof(double) +
                         static_cast<std::size_t>(shape[0]) * sizeof(std::int32_t);
      return make_kernel(node, bytes,
                         [padding_idx](const KernelArguments& a) { embedding_row_grad<T>(a, padding_idx); });
    }
    check(node.op == Op::kMergeRowGrads, "make_row_gradient_kernel knows the op");
    return make_kernel(node, [](const KernelArguments& a) { merge_row_grads<T>(a); });
  });
}

}  // namespace plimsoll::reference
