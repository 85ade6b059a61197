#include "backend/lone_node.h"

#include <fmt/format.h>

namespace plimsoll {

Node lone_node(const Graph& from, const Node& node, Graph& to) {
  Node copy = node;
  copy.outputs.clear();
  for (ValueId& input : copy.inputs) {
    const Value& value = from.value(input);
    const std::string name = fmt::format("input {}", to.values().size());
    input = is_persistent(value.role) ? to.add_state(name, value.type) : to.add_input(name, value.type);
  }
  if (node.row_count != kNoValue) copy.row_count = to.add_input("rows", {DType::kI32, {1}});
  return copy;
}

}  // namespace plimsoll
