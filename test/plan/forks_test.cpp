#include "plan/forks.h"

#include <gtest/gtest.h>

#include "graph/build.h"
#include "plan/memory_plan.h"

namespace plimsoll::test {
namespace {

const TensorType kSquare{DType::kF32, {16, 16}};
constexpr NodeId kInTurn = kNoNode;

struct Projections {
  Graph graph;
  ValueId x = graph.add_input("x", kSquare), w = graph.add_parameter("w", kSquare);

  ValueId product(const char* name) { return linear(graph, name, x, w, kNoValue, kNoValue); }
  void weight_gradient(const char* name, ValueId dy) {
    graph.add_node({.op = Op::kLinearWeightGrad, .name = name, .inputs = {dy, x}, .phase = Phase::kBackward});
  }
};

TEST(Forks, AreProductsThatTheNextNodeDoesNotRead) {
  Projections net;
  const ValueId q = net.product("q"), k = net.product("k"), v = net.product("v");
  const ValueId sum = add(net.graph, "k+v", k, v, kNoValue);
  net.graph.mark_output(add(net.graph, "q+k+v", q, sum, kNoValue));
  EXPECT_EQ(find_joins(net.graph, 2), (std::vector<NodeId>{4, 3, kInTurn, kInTurn, kInTurn}));
}

TEST(Forks, EndLastIfNothingReadsThem) {
  Projections net;
  net.weight_gradient("dw", net.x);
  net.graph.mark_output(add(net.graph, "twice", net.x, net.x, kNoValue));
  EXPECT_EQ(find_joins(net.graph, 2), (std::vector<NodeId>{2, kInTurn}));
}

TEST(Forks, EndBeforeTheirOperandsAreWritten) {
  Projections net;
  const ValueId sum = net.graph.add_state("sum", kSquare), keep = net.graph.add_input("keep", {DType::kI32, {1}});
  net.weight_gradient("dw", sum);
  const ValueId other = add(net.graph, "other", net.x, net.x, kNoValue);
  net.graph.add_node({.op = Op::kAccumulate, .name = "into_sum", .inputs = {sum, other, keep}});
  net.graph.mark_output(add(net.graph, "last", other, net.x, kNoValue));
  EXPECT_EQ(find_joins(net.graph, 2), (std::vector<NodeId>{2, kInTurn, kInTurn, kInTurn}));
}

TEST(Forks, AreTwoAtATime) {
  Projections net;
  for (const char* name : {"a", "b", "c", "d"}) net.weight_gradient(name, net.x);
  net.graph.mark_output(add(net.graph, "twice", net.x, net.x, kNoValue));
  EXPECT_EQ(find_joins(net.graph, 2), (std::vector<NodeId>{2, 3, 5, 5, kInTurn}));
}

TEST(Forks, KeepTheirOperandsAndScratchUntilTheyAreJoined) {
  Graph graph;
  const ValueId x = graph.add_input("x", kSquare), w = graph.add_parameter("w", kSquare);
  const ValueId a = linear(graph, "a", x, w, kNoValue, kNoValue);              // 0
  const ValueId product = linear(graph, "product", a, w, kNoValue, kNoValue);  // 1, which forks
  const ValueId b = add_single(graph, {.op = Op::kGelu, .name = "b", .inputs = {x}});  // 2
  const ValueId c = add_single(graph, {.op = Op::kGelu, .name = "c", .inputs = {b}});  // 3
  graph.mark_output(add(graph, "last", c, product, kNoValue));                         // 4
  const std::vector<std::size_t> scratch = {0, 256, 0, 0, 0};
  const auto end_of = [&](std::span<const NodeId> joins, std::string_view name) {
    for (const Buffer& buffer : find_buffers(graph, scratch, joins)) {
      if (buffer.name == name) return buffer.life.end;
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(end_of({}, "a"), 2);
  EXPECT_EQ(end_of({}, "product (scratch)"), 2);
  const std::vector<NodeId> joins = find_joins(graph, 2);
  EXPECT_EQ(joins, (std::vector<NodeId>{kInTurn, 4, kInTurn, kInTurn, kInTurn}));
  EXPECT_EQ(end_of(joins, "a"), 4);
  EXPECT_EQ(end_of(joins, "product (scratch)"), 4);

  PersistentLayout layout;
  layout.add(graph);
  const MemoryPlan plain = plan_memory(graph, scratch, layout);
  const MemoryPlan forking = plan_memory(graph, scratch, layout, 2);
  EXPECT_TRUE(plain.joins.empty());
  EXPECT_EQ(forking.joins, joins);
}

// `b` could take x's bytes, but a forked node reads them until node 3.
TEST(Forks, NobodyTakesTheBytesOfTheirOperands) {
  Projections net;
  const ValueId q = net.product("q");
  const ValueId b = add_single(net.graph, {.op = Op::kGelu, .name = "b", .inputs = {net.x}});
  const ValueId c = add_single(net.graph, {.op = Op::kGelu, .name = "c", .inputs = {b}});
  net.graph.mark_output(add(net.graph, "last", c, q, kNoValue));
  PersistentLayout layout;
  layout.add(net.graph);
  const auto place = [](const MemoryPlan& plan, ValueId value) {
    return plan.value_offsets[static_cast<std::size_t>(value)];
  };
  const MemoryPlan plain = plan_memory(net.graph, {}, layout);
  EXPECT_EQ(place(plain, b), place(plain, net.x));
  const MemoryPlan forking = plan_memory(net.graph, {}, layout, 2);
  EXPECT_NE(place(forking, b), place(forking, net.x));
}

}  // namespace
}  // namespace plimsoll::test
