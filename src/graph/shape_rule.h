// ShapeRule: a node's input types as its op's shape rule reads them, with checks that name the node. A rule returns the
// types of the outputs; the catalogue in op.h is the specification.
//
//   Types gelu_types(const ShapeRule& rule) {
//     rule.inputs(1);
//     return {rule.floating(0, 2)};
//   }
#pragma once

#include <concepts>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/attention_form.h"
#include "graph/graph.h"
#include "graph/layer_norm_form.h"

namespace plimsoll {

using Types = std::vector<TensorType>;

class ShapeRule {
 public:
  ShapeRule(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  std::size_t count() const { return node_.inputs.size(); }
  const TensorType& in(std::size_t i) const;
  std::int64_t dim(std::size_t i, std::size_t axis) const;
  void require(bool condition, std::string_view what) const {
    if (!condition) fail(what);
  }
  // Takes a message that is only built when it is needed.
  template <std::invocable What>
  void require(bool condition, const What& what) const {
    if (!condition) fail(what());
  }
  void inputs(std::size_t low, std::size_t high) const;
  void inputs(std::size_t exactly) const { inputs(exactly, exactly); }
  // Returns a tensor of this rank that has a floating type.
  const TensorType& floating(std::size_t i, std::size_t rank) const;
  // Does the same, but also allows a tensor coded in blocks.
  const TensorType& matrix(std::size_t i) const;
  void expect(std::size_t i, const TensorType& type) const;
  // Checks a linear map's weight for rows of type f.
  void require_weight(const TensorType& weight, DType f) const;
  // Checks attention's heads, and returns the type of k and v.
  TensorType key_value_type(const TensorType& q) const;
  // Checks attention's inputs from sample_offsets on, for n rows of type f.
  void require_attention_context(std::int64_t n, DType f) const;
  // Checks the attributes of layer_norm or its gradient, and the inputs that say what was dropped, for n rows.
  void require_layer_norm_dropout(std::int64_t n) const;
  template <typename T>
  const T& attributes() const {
    require(std::holds_alternative<T>(node_.attributes), "carries the wrong kind of attributes");
    return std::get<T>(node_.attributes);
  }

 private:
  void fail(std::string_view what) const;

  const Graph& graph_;
  const Node& node_;
};

inline TensorType i32(Shape shape) { return {DType::kI32, shape}; }

}  // namespace plimsoll
