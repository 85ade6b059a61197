#include "graph/graph.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/box_size.h"
#include "graph/build.h"
#include "graph/op_facts.h"
#include "graph/relative_bucket.h"

namespace plimsoll {
namespace {

Graph small_graph(ValueId& x, ValueId& y) {
  Graph graph;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  x = graph.add_input("x", {DType::kF32, {64, 12}});
  const ValueId weight = graph.add_parameter("weight", {DType::kF32, {20, 12}});
  const ValueId bias = graph.add_parameter("bias", {DType::kF32, {20}});
  y = linear(graph, "dense", x, weight, bias, rows);
  graph.mark_output(y);
  return graph;
}

// torch.clip(size, 0, 1023) of transformers, limited to the table's rows.
TEST(BoxSize, IsClippedAsTransformersClipsIt) {
  EXPECT_EQ(largest_box_size(1001), 1000);
  EXPECT_EQ(largest_box_size(1024), 1023);
  EXPECT_EQ(largest_box_size(2048), 1023);
}

TEST(Graph, InfersTypesNamesAndRoles) {
  ValueId x = 0, y = 0;
  const Graph graph = small_graph(x, y);
  EXPECT_EQ(graph.type(y), (TensorType{DType::kF32, {64, 20}}));
  EXPECT_EQ(graph.value(y).name, "dense");
  EXPECT_EQ(graph.value(y).role, Role::kActivation);
  EXPECT_EQ(graph.find_source("weight"), 2);
  EXPECT_EQ(graph.find_source("dense"), kNoValue);
  EXPECT_NO_THROW(verify(graph));
  EXPECT_NE(dump(graph).find("linear"), std::string::npos);
}

TEST(Graph, AReferenceStaysGoodWhileOthersAreAdded) {
  ValueId x = 0, y = 0;
  Graph graph = small_graph(x, y);
  const Value& value = graph.value(x);
  const Node& node = graph.node(0);
  for (int i = 0; i < 1000; ++i) y = add_single(graph, {.op = Op::kGelu, .name = "gelu", .inputs = {y}});
  EXPECT_EQ(&graph.value(x), &value);
  EXPECT_EQ(&graph.node(0), &node);
}

TEST(Graph, RefusesShapesThatDoNotFitNamingTheNode) {
  ValueId x = 0, y = 0;
  Graph graph = small_graph(x, y);
  try {
    add(graph, "residual", x, y, kNoValue);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("'residual' (add)"), std::string::npos) << error.what();
  }
}

TEST(Graph, VerifierSeesAReadAfterItsBytesWereTaken) {
  Graph graph;
  const ValueId sum = graph.add_state("sum", {DType::kF32, {4, 4}});
  const ValueId x = graph.add_input("x", {DType::kF32, {4, 4}});
  const ValueId keep = graph.add_input("keep", {DType::kI32, {1}});
  const ValueId after = add_single(graph, {.op = Op::kAccumulate, .name = "sum+x", .inputs = {sum, x, keep}});
  EXPECT_EQ(graph.value(after).role, Role::kState);
  EXPECT_EQ(graph.value(after).name, "sum");
  EXPECT_NO_THROW(verify(graph));
  add(graph, "late", sum, x, kNoValue);
  EXPECT_THROW(verify(graph), InternalError);
}

TEST(Op, NamesAreDistinctAndComplete) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kOpCount; ++i) names.insert(op_name(static_cast<Op>(i)));
  EXPECT_EQ(names.size(), kOpCount);
  EXPECT_EQ(names.count(""), 0U);
  EXPECT_EQ(op_name(Op::kLayerNorm), "layer_norm");
  EXPECT_EQ(op_name(Op::kTanhGrad), "tanh_grad");
  EXPECT_EQ(op_name(Op::kAdamWRows), "adamw_rows");
}

TEST(OpFacts, EachOpIsPricedLikeOneThatIsPricedLikeItself) {
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const Op like = op_facts(static_cast<Op>(i)).priced_like;
    EXPECT_EQ(op_facts(like).priced_like, like) << op_name(static_cast<Op>(i));
  }
}

TEST(OpFacts, AnAliasOfAnAbsentInputIsAbsent) {
  EXPECT_TRUE(op_aliases(Op::kLinearWeightGrad, 2).empty());
  ASSERT_EQ(op_aliases(Op::kLinearWeightGrad, 4).size(), 1U);
  EXPECT_EQ(op_aliases(Op::kLinearWeightGrad, 4)[0].input, 2U);
  EXPECT_EQ(op_aliases(Op::kMergeRowGrads, 7).size(), 3U);  // the sum's ids, count and rows
  EXPECT_EQ(op_aliases(Op::kAdamW, 8).size(), 4U);          // a split parameter and two moments
}

TEST(RelativeBucket, EdgesByHand) {
  EXPECT_EQ(relative_bucket(0, 32, 128), 0);
  EXPECT_EQ(relative_bucket(-7, 32, 128), 7);
  EXPECT_EQ(relative_bucket(7, 32, 128), 23);
  EXPECT_EQ(relative_bucket(-8, 32, 128), 8);
  EXPECT_EQ(relative_bucket(1000, 32, 128), 31);
  EXPECT_EQ(relative_bucket(-1000, 64, 256), 31);
}

}  // namespace
}  // namespace plimsoll
