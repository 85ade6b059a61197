#include "transform/rewriter.h"

#include <gtest/gtest.h>

#include "graph/build.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

const TensorType kMatrix{DType::kF32, {4, 4}};

struct Source {
  Graph graph;
  ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix), m = graph.add_state("m", kMatrix);
  ValueId early = add_single(graph, {.op = Op::kGelu, .name = "early", .inputs = {x}});
  ValueId rows = graph.add_input("rows", {DType::kI32, {1}});  // sources may come after nodes
  ValueId y = linear(graph, "y", x, w, kNoValue, rows);
  ValueId late = graph.add_input("late", kMatrix);
  ValueId z = add(graph, "z", y, late, rows);
  Source() { graph.mark_output(z); }
};

TEST(Rewriter, CopiesAGraphAsItIs) {
  const Source source;
  Rewriter rewriter(source.graph);
  rewriter.copy_sources();
  for (const Node& node : source.graph.nodes()) rewriter.copy_node(node);
  rewriter.copy_outputs();
  for (const ValueId value :
       {source.x, source.w, source.m, source.early, source.rows, source.y, source.late, source.z}) {
    const Value &old = source.graph.value(value), &now = rewriter.graph().value(rewriter.mapped(value));
    EXPECT_EQ(now.name, old.name);
    EXPECT_EQ(now.type, old.type);
    EXPECT_EQ(now.role, old.role);
  }
  const ValueId z = rewriter.mapped(source.z);
  const Graph copy = rewriter.take();
  verify(copy);
  ASSERT_EQ(copy.nodes().size(), 3U);
  EXPECT_EQ(copy.nodes()[0].row_count, kNoValue);
  EXPECT_EQ(copy.value(copy.nodes()[2].row_count).name, "rows");
  EXPECT_EQ(copy.outputs().size(), 1U);
  EXPECT_EQ(copy.outputs()[0], z);
}

TEST(Rewriter, LetsATransformStepIn) {
  const Source source;
  Rewriter rewriter(source.graph);
  rewriter.copy_sources();
  rewriter.copy_node(source.graph.nodes()[1]);
  // z reads gelu(y) in place of y …
  const ValueId y = rewriter.mapped(source.y);
  const ValueId gelu = add_single(rewriter.graph(), {.op = Op::kGelu, .name = "gelu", .inputs = {y}});
  rewriter.copy_node(source.graph.nodes()[2], {gelu, rewriter.mapped(source.late)});
  EXPECT_EQ(rewriter.graph().nodes()[2].inputs[0], gelu);
  EXPECT_EQ(rewriter.graph().value(rewriter.mapped(source.z)).producer, 2);
  // … and every later reader of z reads x.
  rewriter.map(source.z, rewriter.mapped(source.x));
  EXPECT_EQ(rewriter.mapped(source.z), rewriter.graph().find_source("x"));
}

TEST(Rewriter, WhatHasNotBeenCopiedIsNamed) {
  const Source source;
  Rewriter rewriter(source.graph);
  expect_error<InternalError>([&] { rewriter.mapped(source.x); }, {"'x' has not been copied yet"});
  rewriter.copy_sources();
  expect_error<InternalError>([&] { rewriter.copy_node(source.graph.nodes()[2]); }, {"'y' has not been copied yet"});
  expect_error<InternalError>([&] { rewriter.copy_outputs(); }, {"'z' has not been copied yet"});
}

}  // namespace
}  // namespace plimsoll::test
