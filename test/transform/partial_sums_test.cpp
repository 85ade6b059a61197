#include "transform/partial_sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "graph/partial_sums.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

// The gradients of a layer norm and of two biases, of which the second is read before the last is made.
struct SomeSums {
  Graph graph;

  SomeSums() {
    const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
    const ValueId dy = graph.add_input("dy", {DType::kF32, {5, 4}});
    const ValueId rstd = graph.add_input("rstd", {DType::kF32, {5}});
    const ValueId gamma = graph.add_input("gamma", {DType::kF32, {4}});
    const auto add = [&](Node node) {
      node.row_count = node.op == Op::kScale ? kNoValue : rows;
      node.phase = Phase::kBackward;
      return graph.add_node(std::move(node));
    };
    const auto norm = add({.op = Op::kLayerNormGrad,
                           .name = "norm",
                           .attributes = LayerNormAttributes{.column_sums = true},
                           .inputs = {dy, dy, rstd, gamma}});
    const auto first = add({.op = Op::kBiasGrad, .name = "first", .inputs = {norm[0]}});
    const auto twice = add({.op = Op::kAdd, .name = "twice", .inputs = {first[0], first[0]}});
    const auto second = add({.op = Op::kBiasGrad, .name = "second", .inputs = {dy}});
    for (const ValueId output : {norm[1], norm[2], norm[3], twice[0], second[0]}) graph.mark_output(output);
  }
};

std::vector<std::vector<double>> results(const Graph& graph) {
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  const auto set = [&](const char* name, int count) {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) values.push_back(0.375 * i - 1.25);
    runner.set(name, values);
  };
  runner.set("rows", std::vector<double>{3});
  set("dy", 12);
  set("rstd", 3);
  set("gamma", 4);
  runner.run();
  std::vector<std::vector<double>> all;
  for (const ValueId output : graph.outputs()) all.push_back(runner.made(output));
  return all;
}

TEST(PartialSums, AreAddedUpBeforeTheFirstIsRead) {
  const Graph graph = SomeSums().graph;
  const Graph late = add_sums_late(graph, [](const Graph&, const Node&) { return 3; });
  EXPECT_NO_THROW(verify(late));
  std::vector<std::string> names;
  for (const Node& node : late.nodes()) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"norm", "first", "add_partial_sums.0", "twice", "second"}));
  EXPECT_EQ(late.type(late.nodes()[0].outputs[1]), (TensorType{DType::kF32, {3, 12}}));
  EXPECT_EQ(partial_sums(late.nodes()[1]), 3);
  EXPECT_EQ(partial_sums(late.nodes()[4]), 0) << "its sum would be the only one";
  EXPECT_EQ(late.outputs().size(), graph.outputs().size());
  EXPECT_EQ(results(late), results(graph));
}

TEST(PartialSums, StayWholeWhereTheBackendMakesNoParts) {
  const Graph graph = SomeSums().graph;
  const Graph same = add_sums_late(graph, [](const Graph& of, const Node& node) {
    return node.op == Op::kLayerNormGrad && of.type(node.inputs[0]).shape[1] == 4 ? 2 : 0;
  });
  EXPECT_EQ(same.nodes().size(), graph.nodes().size());
  for (const Node& node : same.nodes()) EXPECT_EQ(partial_sums(node), 0) << node.name;
  EXPECT_EQ(results(same), results(graph));
}

// The transform adds up at the end of the graph what nobody has read until then.
TEST(PartialSums, OfOutputsAreAddedUpAtTheEnd) {
  Graph graph;
  const ValueId dy = graph.add_input("dy", {DType::kF32, {5, 4}});
  for (const char* const name : {"a", "b"}) {
    const Node node{.op = Op::kBiasGrad, .name = name, .inputs = {dy}, .phase = Phase::kBackward};
    graph.mark_output(graph.add_node(node)[0]);
  }
  const Graph late = add_sums_late(graph, [](const Graph&, const Node&) { return 2; });
  EXPECT_EQ(late.nodes().size(), 3U);
  EXPECT_EQ(late.nodes().back().op, Op::kAddPartialSums);
  EXPECT_TRUE(std::ranges::equal(late.outputs(), late.nodes().back().outputs));
}

}  // namespace
}  // namespace plimsoll::test
