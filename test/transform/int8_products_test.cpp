#include "transform/int8_products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/build.h"

namespace plimsoll::test {
namespace {

// Two products, one of a coded weight and one of a weight as it is, and the row count that both have.
Graph two_products() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {6, 64}});
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  const ValueId coded = graph.add_parameter("coded", {DType::kQ8, {32, 64}});
  const ValueId plain = graph.add_parameter("plain", {DType::kF32, {5, 32}});
  const ValueId bias = graph.add_parameter("bias", {DType::kF32, {32}});
  const ValueId y = linear(graph, "first", x, coded, bias, rows);
  graph.mark_output(linear(graph, "second", y, plain, kNoValue, rows));
  return graph;
}

TEST(Int8Products, OnlyProductsOfCodedWeightsAreRounded) {
  const Graph graph = two_products(), rounded = multiply_in_int8(graph);
  ASSERT_EQ(rounded.nodes().size(), graph.nodes().size());
  EXPECT_EQ(rounded.nodes()[0].op, Op::kLinearInt8);
  EXPECT_EQ(rounded.nodes()[1].op, Op::kLinear);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    EXPECT_EQ(rounded.nodes()[i].name, graph.nodes()[i].name);
    EXPECT_EQ(rounded.nodes()[i].inputs, graph.nodes()[i].inputs);
    EXPECT_EQ(rounded.nodes()[i].row_count, graph.nodes()[i].row_count);
  }
  EXPECT_TRUE(std::ranges::equal(rounded.outputs(), graph.outputs()));
}

TEST(Int8Products, AGraphWithBackwardIsRefused) {
  Graph graph = two_products();
  graph.add_node({.op = Op::kTanhGrad,
                  .name = "back",
                  .inputs = {graph.outputs()[0], graph.outputs()[0]},
                  .phase = Phase::kBackward});
  EXPECT_THROW(multiply_in_int8(graph), InternalError);
}

}  // namespace
}  // namespace plimsoll::test
