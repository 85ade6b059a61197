#include "backend/cuda/sizes/products.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/sizes/tails.h"
#include "base/bytes.h"
#include "graph/op_facts.h"
#include "tensor/tensor.h"

namespace plimsoll::cuda {
namespace {

constexpr std::int64_t kPadded = 1024;  // the copy does not pay for rows of fewer elements
constexpr std::int64_t kPack = 8;       // halves in 16 bytes

std::int64_t padded(DType type, std::int64_t columns) {
  return is_half(type) && columns >= kPadded ? (columns + kPack - 1) / kPack * kPack : columns;
}

// True if no other node relies on the rows of `value` that are not real for `node`: its producer counts rows as `node`
// does.
bool may_fill_tail(const Graph& graph, const Node& node, ValueId value) {
  const Value& of = graph.value(value);
  if (of.producer == kNoNode || is_persistent(of.role)) return false;
  const Node& producer = graph.node(of.producer);
  return producer.row_count == node.row_count && op_facts(producer.op).rows.counted == OutputRows::Counted::kByRowCount;
}

}  // namespace

std::string MatmulShape::name() const {
  return fmt::format("{}x{}x{} {}>{}{}{}{}{}{}", rows, columns, inner, dtype_name(operands), dtype_name(result),
                     transposed_a ? " ta" : "", transposed_b ? " tb" : "", bias ? " bias" : "", adds ? " adds" : "",
                     count > 1 ? fmt::format(" x{}", count) : std::string());
}

MatmulShape MatmulShape::with(std::int64_t size) const {
  MatmulShape shape = *this;
  (bounded == Bounded::kRows ? shape.rows : shape.inner) = size;
  return shape;
}

MatmulShape MatmulShape::times(std::int64_t products) const {
  MatmulShape shape = *this;
  shape.count = products;
  return shape;
}

std::int64_t MatmulShape::pitch_a() const { return padded(operands, transposed_a ? rows : inner); }
std::int64_t MatmulShape::pitch_c() const { return adds ? columns : padded(result, columns); }

std::size_t MatmulShape::workspace_bytes() const {
  const std::size_t result_bytes = sizeof(float) * static_cast<std::size_t>(rows * columns);
  return std::clamp(round_up(16 * result_bytes, kWorkspaceAlignment), kLeastWorkspaceBytes, kMostWorkspaceBytes);
}

std::size_t ProductScratch::add(std::size_t bytes) {
  const std::size_t at = bytes_;
  bytes_ += round_up(bytes, kWorkspaceAlignment);
  return at;
}

std::size_t ProductScratch::bytes() const { return bytes_ == 0 ? 0 : bytes_ + kWorkspaceAlignment - kAlignmentBytes; }

RowProductForm::RowProductForm(const Graph& graph, const Node& node) {
  const TensorType &x = graph.type(node.inputs[0]), &weight = graph.type(node.inputs[1]),
                   &y = graph.type(node.outputs[0]);
  shape = {.rows = x.shape[0],
           .columns = y.shape[1],
           .inner = x.shape[1],
           .operands = x.dtype,
           .result = y.dtype,
           .transposed_b = node.op != Op::kLinearInputGrad,
           .bias = node.op == Op::kLinear && node.inputs.size() == 3,
           .adds = node.op == Op::kLinearAdd || (node.op == Op::kLinearInputGrad && node.inputs.size() == 3),
           .bounded = Bounded::kRows};
  converts_weight = weight.dtype != x.dtype;
  converts_bias = shape.bias && graph.type(node.inputs[2]).dtype != x.dtype;
  if (converts_weight) weight_at = scratch.add(bytes_of(x.dtype, shape.inner * shape.columns));
  if (converts_bias) bias_at = scratch.add(bytes_of(x.dtype, shape.columns));
  if (shape.pads_a()) a_at = scratch.add(bytes_of(shape.operands, shape.rows * shape.pitch_a()));
  if (shape.pads_c()) c_at = scratch.add(bytes_of(shape.result, shape.rows * shape.pitch_c()));
  workspace_at = scratch.add(shape.workspace_bytes());
}

WeightGradientForm::WeightGradientForm(const Graph& graph, const Node& node) : has_sum(node.inputs.size() > 2) {
  const TensorType &dy = graph.type(node.inputs[0]), &x = graph.type(node.inputs[1]);
  shape = {.rows = dy.shape[1],
           .columns = x.shape[1],
           .inner = dy.shape[0],
           .operands = dy.dtype,
           .result = DType::kF32,
           .transposed_a = true,
           .adds = has_sum,
           .bounded = Bounded::kInner};
  fills = node.row_count != kNoValue &&
          !add_nothing(tail_of(graph, node.inputs[0], node.row_count), tail_of(graph, node.inputs[1], node.row_count));
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const TensorType& type = graph.type(node.inputs[i]);
    const bool pads = i == 0 && shape.pads_a();
    copies[i] = pads || (fills && !may_fill_tail(graph, node, node.inputs[i]));
    const std::int64_t pitch = pads ? shape.pitch_a() : type.shape[1];
    if (copies[i]) copy_at[i] = scratch.add(bytes_of(type.dtype, type.shape[0] * pitch));
  }
  workspace_at = scratch.add(shape.workspace_bytes());
}

}  // namespace plimsoll::cuda
