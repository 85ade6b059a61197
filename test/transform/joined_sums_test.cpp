#include "transform/joined_sums.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

// Sums of a, b and c in a row, one that counts rows, one of d, and the norm of all.
Graph sums() {
  Graph graph;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  const ValueId most = graph.add_input("max_grad_norm", {DType::kF32, {1}});
  std::vector<ValueId> inputs = {most};
  const auto add = [&](const char* name, Shape shape, ValueId row_count) {
    const ValueId x = graph.add_input(name, {DType::kF32, shape});
    inputs.push_back(graph.add_node({.op = Op::kSumSquares,
                                     .name = std::string(name) + ".sum_squares",
                                     .inputs = {x},
                                     .row_count = row_count,
                                     .phase = Phase::kUpdate})[0]);
  };
  add("a", {3, 5}, kNoValue);
  add("b", {7}, kNoValue);
  add("c", {2, 2, 2}, kNoValue);
  add("counted", {4, 3}, rows);
  add("d", {9}, kNoValue);
  const std::vector<ValueId> norm = graph.add_node({.op = Op::kGradientNorm,
                                                    .name = "gradient_norm",
                                                    .attributes = GradientNormAttributes{},
                                                    .inputs = inputs,
                                                    .phase = Phase::kUpdate});
  for (const ValueId output : norm) graph.mark_output(output);
  return graph;
}

TEST(JoinedSums, NeighboursBecomeOneNodeWithTheSameSums) {
  const Graph graph = sums(), joined = join_sums(graph);
  EXPECT_NO_THROW(verify(joined));
  const auto count = [](const Graph& of) { return std::ranges::count(of.nodes(), Op::kSumSquares, &Node::op); };
  EXPECT_EQ(count(graph), 5);
  EXPECT_EQ(count(joined), 2);  // one counts rows
  EXPECT_EQ(joined.nodes().front().inputs.size(), 1U);
  EXPECT_EQ(joined.nodes()[1].inputs.size(), 4U);
  ReferenceBackend backend;
  std::vector<double> norms;
  for (const Graph* const each : {&graph, &joined}) {
    GraphRunner runner(*each, backend);
    runner.set("rows", std::vector<double>{2});
    runner.set("max_grad_norm", std::vector<double>{1});
    for (const auto& [name, elements] : {std::pair{"a", 15}, {"b", 7}, {"c", 8}, {"counted", 6}, {"d", 9}}) {
      std::vector<double> values;
      for (int i = 0; i < elements; ++i) values.push_back(0.25 * i - 1.5);
      runner.set(name, values);
    }
    runner.run();
    norms.push_back(runner.made("gradient_norm:0").front());
  }
  EXPECT_GT(norms[0], 1);
  EXPECT_EQ(norms[0], norms[1]);
}

}  // namespace
}  // namespace plimsoll::test
