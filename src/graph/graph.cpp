#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plimsoll {

std::string_view role_name(Role role) {
  static constexpr std::array<std::string_view, 5> kNames = {"input", "parameter", "state", "activation", "gradient"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

ValueId Graph::add_value(std::string name, TensorType type, Role role) {
  values_.push_back({.name = std::move(name), .type = type, .role = role});
  return static_cast<ValueId>(values_.size()) - 1;
}

std::vector<ValueId> Graph::add_node(Node node) {
  for (const ValueId input : node.inputs) {
    check(input >= 0 && static_cast<std::size_t>(input) < values_.size(),
          [&] { return fmt::format("node '{}' ({}) has an input that does not exist", node.name, op_name(node.op)); });
  }
  const std::vector<TensorType> types = infer_types(*this, node);
  const std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
  const NodeId id = static_cast<NodeId>(nodes_.size());
  node.outputs.clear();
  node.outputs.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    Value value{.name = types.size() == 1 ? node.name : fmt::format("{}:{}", node.name, i),
                .type = types[i],
                .role = node.phase == Phase::kForward ? Role::kActivation : Role::kGradient,
                .producer = id,
                .output_index = static_cast<std::int32_t>(i)};
    for (const Alias& alias : aliases) {
      if (alias.output != i || alias.kind != Alias::Kind::kMust) continue;
      const Value& taken = this->value(node.inputs[alias.input]);
      value.name = taken.name;
      value.role = taken.role;
    }
    values_.push_back(std::move(value));
    node.outputs.push_back(static_cast<ValueId>(values_.size()) - 1);
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

void Graph::mark_output(ValueId value) {
  check(value >= 0 && static_cast<std::size_t>(value) < values_.size(), "an output is a value of the graph");
  if (std::find(outputs_.begin(), outputs_.end(), value) == outputs_.end()) outputs_.push_back(value);
}

ValueId Graph::find_source(std::string_view name) const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].producer == kNoNode && values_[i].name == name) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

bool any_tensor(const Graph& graph, const Node& node, bool (*is)(DType)) {
  const auto holds = [&](ValueId value) { return is(graph.type(value).dtype); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), holds) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), holds);
}

void verify(const Graph& graph) {
  // The node whose kMust output has overwritten a value's bytes; a later read of the old value would see the new bytes.
  std::vector<NodeId> taken_by(graph.values().size(), kNoNode);
  std::vector<bool> defined(graph.values().size(), false);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer == kNoNode) {
      defined[i] = true;
      check(value.role != Role::kActivation && value.role != Role::kGradient,
            [&] { return fmt::format("value '{}' has neither producer nor a source's role", value.name); });
    }
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const auto label = [&] { return fmt::format("node {} '{}' ({})", n, node.name, op_name(node.op)); };
    const auto check_read = [&](ValueId input) {
      const auto index = static_cast<std::size_t>(input);
      check(input >= 0 && index < defined.size() && defined[index],
            [&] { return fmt::format("{} reads a value before it exists", label()); });
      check(taken_by[index] == kNoNode, [&] {
        return fmt::format("{} reads '{}' after node {} took its bytes", label(), graph.value(input).name,
                           taken_by[index]);
      });
    };
    for (const ValueId input : node.inputs) check_read(input);
    if (node.row_count != kNoValue) {
      check_read(node.row_count);
      check(graph.type(node.row_count) == TensorType{DType::kI32, {1}},
            [&] { return fmt::format("{}: row_count is i32[1]", label()); });
    }
    const std::vector<TensorType> types = infer_types(graph, node);
    check(types.size() == node.outputs.size(),
          [&] { return fmt::format("{} has a wrong number of outputs", label()); });
    for (const Alias& alias : op_aliases(node.op, node.inputs.size())) {
      if (alias.kind != Alias::Kind::kMust) continue;
      taken_by[static_cast<std::size_t>(node.inputs[alias.input])] = static_cast<NodeId>(n);
      check(graph.type(node.inputs[alias.input]) == graph.type(node.outputs[alias.output]),
            [&] { return fmt::format("{}: an output takes bytes of another type", label()); });
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Value& output = graph.value(node.outputs[i]);
      check(output.type == types[i], [&] {
        return fmt::format("{}: output {} is {}, the op makes {}", label(), i, to_string(output.type),
                           to_string(types[i]));
      });
      check(output.producer == static_cast<NodeId>(n),
            [&] { return fmt::format("{}: output {} names another producer", label(), i); });
      defined[static_cast<std::size_t>(node.outputs[i])] = true;
    }
  }
  for (const ValueId output : graph.outputs()) {
    check(taken_by[static_cast<std::size_t>(output)] == kNoNode,
          [&] { return fmt::format("output '{}' is overwritten before the step ends", graph.value(output).name); });
  }
}

std::string dump(const Graph& graph) {
  std::string text;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    text += fmt::format("{:4} {:<8} {:<22} {}", n, phase_name(node.phase), op_name(node.op), node.name);
    for (const ValueId output : node.outputs) {
      text += fmt::format("  %{}:{}", output, to_string(graph.type(output)));
    }
    text += " <-";
    for (const ValueId input : node.inputs) text += fmt::format(" %{}", input);
    if (node.row_count != kNoValue) text += fmt::format("  rows {}", graph.value(node.row_count).name);
    text += '\n';
  }
  return text;
}

}  // namespace plimsoll
