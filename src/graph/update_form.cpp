#include "graph/update_form.h"

#include <fmt/format.h>

#include <vector>

namespace plimsoll {
namespace {

Shape without_axis(const Shape& shape, std::size_t axis) {
  check(shape.rank() >= 2, "a matrix has rows and columns");
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

UpdateForm update_form(const Graph& graph, const Node& node) {
  check(is_parameter_update(node.op),
        [&] { return fmt::format("node '{}' ({}) updates a parameter", node.name, op_name(node.op)); });
  UpdateForm form;
  form.by_rows = node.op == Op::kAdamWRows || node.op == Op::kAdafactorRows;
  const std::size_t behind = form.by_rows ? 6 : 4;
  const auto dtype = [&](std::size_t i) { return graph.type(node.inputs[i]).dtype; };
  check(node.inputs.size() >= behind + 2,
        [&] { return fmt::format("node '{}' ({}) has its inputs", node.name, op_name(node.op)); });
  if (dtype(0) == DType::kBF16 && dtype(1) == DType::kI16) form.parameter_parts = 2;
  check(node.inputs.size() > behind + form.parameter_parts,
        [&] { return fmt::format("node '{}' ({}) has states", node.name, op_name(node.op)); });
  form.state_parts = node.inputs.size() - behind - form.parameter_parts;
  form.coded = dtype(form.states()) == DType::kU8;
  return form;
}

MatrixStack matrix_stack(const Graph& graph, const Node& node) {
  const UpdateForm form = update_form(graph, node);
  const std::int64_t elements = graph.type(node.inputs[0]).shape.elements();
  if (form.state_parts < 2) return {elements == 0 ? 0 : 1, 1, elements};
  const auto last = [&](std::size_t i) {
    const Shape& shape = graph.type(node.inputs[i]).shape;
    return shape[shape.rank() - 1];
  };
  const std::int64_t rows = last(form.states()), columns = last(form.states() + 1);
  return {rows * columns == 0 ? 0 : elements / (rows * columns), rows, columns};
}

Shape row_mean_shape(const Shape& shape) { return without_axis(shape, shape.rank() - 1); }
Shape column_mean_shape(const Shape& shape) { return without_axis(shape, shape.rank() - 2); }

}  // namespace plimsoll
