// Graph: one step as a list of nodes in the order in which they run. It is append-only: a node's inputs exist before
// it, so the list is always topologically sorted. Transforms read one graph and write another.
//
//   Graph graph;
//   const ValueId x = graph.add_input("x", {DType::kF32, {8, 768}});
//   const ValueId w = graph.add_parameter("dense.weight", {DType::kF32, {3072, 768}});
//   const ValueId y = linear(graph, "dense", x, w, kNoValue, rows);   // graph/build.h
//   graph.mark_output(y);
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "tensor/tensor.h"

namespace plimsoll {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeId kNoNode = -1;

enum class Role : std::uint8_t {
  kInput,       // written by the host before each step
  kParameter,   // persistent, trained or frozen
  kState,       // persistent: optimizer moments, accumulated gradients
  kActivation,  // lives within a step
  kGradient     // lives within a step, made in backward
};
std::string_view role_name(Role role);

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };
std::string_view phase_name(Phase phase);

struct Value {
  std::string name;
  TensorType type;
  Role role = Role::kActivation;
  NodeId producer = kNoNode;  // kNoNode for inputs, parameters and states before the step
  std::int32_t output_index = 0;
};

struct Node {
  Op op = Op::kAdd;
  std::string name;  // "encoder.layer.3.attention.self"
  Attributes attributes{};
  std::vector<ValueId> inputs{};  // optional inputs come last; if absent they are left out, not kNoValue
  ValueId row_count = kNoValue;   // i32[1]: leading rows that are real; kNoValue: all
  Phase phase = Phase::kForward;
  std::vector<ValueId> outputs{};  // filled by Graph::add_node
};

class Graph {
 public:
  ValueId add_input(std::string name, TensorType type) { return add_value(std::move(name), type, Role::kInput); }
  ValueId add_parameter(std::string name, TensorType type) {
    return add_value(std::move(name), type, Role::kParameter);
  }
  ValueId add_state(std::string name, TensorType type) { return add_value(std::move(name), type, Role::kState); }

  // Appends the node. Output types come from the op's shape rule, names are "<node name>" or "<node name>:<i>". Outputs
  // that must take an input's bytes inherit its role and name. Throws InternalError naming node, op and types if they
  // do not fit. Returns the node's outputs.
  std::vector<ValueId> add_node(Node node);

  // Marks a value as read by the host after the step: it stays alive to the end.
  void mark_output(ValueId value);

  // A reference to a value or node stays good while others are added.
  const std::deque<Value>& values() const { return values_; }
  const std::deque<Node>& nodes() const { return nodes_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  const Value& value(ValueId id) const { return values_.at(static_cast<std::size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  const TensorType& type(ValueId id) const { return value(id).type; }

  // Returns the value of that name that no node produced (an input, parameter or state), or kNoValue.
  ValueId find_source(std::string_view name) const;

 private:
  ValueId add_value(std::string name, TensorType type, Role role);

  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<ValueId> outputs_;
};

// True for roles whose bytes outlive the step.
constexpr bool is_persistent(Role role) { return role == Role::kParameter || role == Role::kState; }

// i32[1]: how many leading rows are real; kNoValue: all
bool any_tensor(const Graph& graph, const Node& node, bool (*is)(DType));

// Returns the output types of `node` from its op, attributes and inputs. Throws InternalError if the inputs do not fit.
std::vector<TensorType> infer_types(const Graph& graph, const Node& node);

// Checks the whole graph: inputs are defined before use, types follow the shape rules, no value is read after a node
// has overwritten its bytes by a kMust alias, parameters and states change by kMust aliases only. Throws InternalError
// naming the node.
void verify(const Graph& graph);

// Returns one line per node, for people: "  12 forward  linear  encoder.layer.0.output.dense  F32[64, 96] <- …".
std::string dump(const Graph& graph);

}  // namespace plimsoll
