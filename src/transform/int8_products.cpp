#include "transform/int8_products.h"

#include "transform/rewriter.h"

namespace plimsoll {

Graph multiply_in_int8(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  for (const Node& node : graph.nodes()) {
    check(node.phase == Phase::kForward, "a graph whose products are rounded has no backward");
    const bool coded = node.op == Op::kLinear && is_coded(graph.type(node.inputs[1]).dtype);
    if (!coded) {
      rewriter.copy_node(node);
      continue;
    }
    Node rounded = node;
    rounded.op = Op::kLinearInt8;
    rewriter.copy_node(rounded);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
