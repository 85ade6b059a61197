// Damages a good plan in every way that validate_plan must detect.
#include "plan/validate_plan.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "graph/build.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

constexpr std::size_t kMatrixBytes = 1024;
const TensorType kMatrix{DType::kF32, {16, 16}};

// 0 linear    a = x w^T, rows
// 1 layer_norm  y, normalized, rstd of a
// 2 gelu      g of y, in its bytes
// 3 accumulate  sum += g, in its bytes
// 4 accumulate  other += a
struct Step {
  Graph graph;
  ValueId x = graph.add_input("x", kMatrix), rows = graph.add_input("rows", {DType::kI32, {1}}),
          keep = graph.add_input("keep", {DType::kI32, {1}});
  ValueId w = graph.add_parameter("w", kMatrix), gamma = graph.add_parameter("gamma", {DType::kF32, {16}}),
          beta = graph.add_parameter("beta", {DType::kF32, {16}});
  ValueId sum = graph.add_state("sum", kMatrix), other = graph.add_state("other", kMatrix),
          idle = graph.add_state("idle", kMatrix), idle_too = graph.add_state("idle_too", kMatrix);
  ValueId a = kNoValue, g = kNoValue, sum_after = kNoValue;
  LayerNormValues norm{};
  std::vector<std::size_t> scratch = {192, 0, 0, 0, 64};
  MemoryPlan plan;

  Step() {
    a = linear(graph, "a", x, w, kNoValue, rows);
    norm = layer_norm(graph, "norm", a, gamma, beta, 1e-5, kNoValue);
    g = add_single(graph, {.op = Op::kGelu, .name = "g", .inputs = {norm.y}});
    sum_after = add_single(graph, {.op = Op::kAccumulate, .name = "add_to_sum", .inputs = {sum, g, keep}});
    add_single(graph, {.op = Op::kAccumulate, .name = "add_to_other", .inputs = {other, a, keep}});
    graph.mark_output(norm.rstd);
    PersistentLayout layout;
    layout.add(graph);
    plan = plan_memory(graph, scratch, layout);
  }

  std::size_t& place(ValueId value) { return plan.value_offsets[static_cast<std::size_t>(value)]; }
  void expect_fault(std::initializer_list<std::string_view> parts) const {
    expect_error<InternalError>([&] { validate_plan(graph, plan, scratch); }, parts);
  }
  // Adds room behind everything else.
  std::size_t extend(std::size_t bytes) {
    const std::size_t offset = plan.arena_bytes();
    plan.transient_bytes += bytes;
    return offset;
  }
};

TEST(ValidatePlan, AcceptsAGoodPlan) {
  Step step;
  EXPECT_NO_THROW(validate_plan(step.graph, step.plan, step.scratch));
  // The tests below rely on these.
  EXPECT_EQ(step.place(step.g), step.place(step.norm.y));
  EXPECT_EQ(step.place(step.sum_after), step.place(step.sum));
  // g may also lie elsewhere.
  step.place(step.g) = step.extend(kMatrixBytes);
  EXPECT_NO_THROW(validate_plan(step.graph, step.plan, step.scratch));
}

TEST(ValidatePlan, ThePlanOfAnotherGraph) {
  Step step;
  step.plan.value_offsets.pop_back();
  step.expect_fault({"the plan belongs to the graph"});
  step = Step();
  step.plan.scratch_offsets.pop_back();
  step.expect_fault({"the plan belongs to the graph"});
  step = Step();
  step.scratch.pop_back();
  step.expect_fault({"scratch is known for each node"});
}

TEST(ValidatePlan, MisalignedValues) {
  Step step;
  step.extend(kMatrixBytes);
  step.place(step.a) += 4;
  step.expect_fault({"'a' is not aligned"});
}

TEST(ValidatePlan, ValuesOutsideTheirPartOfTheArena) {
  Step step;
  step.place(step.a) = step.plan.arena_bytes() - kMatrixBytes + kAlignmentBytes;
  step.expect_fault({"'a' leaves its part of the arena"});
  step = Step();
  step.place(step.a) = 0;  // among the parameters
  step.expect_fault({"'a' leaves its part of the arena"});
  step = Step();
  step.place(step.w) = step.extend(kMatrixBytes);  // a parameter among the activations
  step.expect_fault({"'w' leaves its part of the arena"});
}

TEST(ValidatePlan, AnInputOverwrittenBeforeItsReader) {
  Step step;
  step.place(step.norm.normalized) = step.place(step.a);  // allowed by the op, but node 4 reads a again
  step.place(step.norm.y) = step.place(step.g) = step.extend(kMatrixBytes);
  step.place(step.norm.rstd) = step.extend(64);
  step.expect_fault({"'a' has been overwritten before node 4 'add_to_other' (accumulate) reads it"});
}

TEST(ValidatePlan, APartOfAnInputIsEnough) {
  Step step;
  step.place(step.a) = step.extend(2 * kMatrixBytes);
  step.place(step.norm.y) = step.extend(kMatrixBytes);
  step.place(step.norm.normalized) = step.extend(kMatrixBytes);
  step.place(step.norm.rstd) = step.extend(64);
  step.place(step.g) = step.place(step.a) + kMatrixBytes - kAlignmentBytes;  // the last row of a
  step.expect_fault({"'a' has been overwritten before node 4"});
}

TEST(ValidatePlan, AnOverwrittenRowCount) {
  Step step;
  step.place(step.rows) = step.place(step.keep);
  step.expect_fault({"'rows' has been overwritten before node 0 'a' (linear) reads it"});
}

TEST(ValidatePlan, AnOutputOnAnInputThatTheOpDoesNotAllow) {
  Step step;
  step.place(step.a) = step.place(step.x);
  step.expect_fault({"node 0 'a' (linear): the output 'a' lies on the input 'x'"});
  step = Step();
  step.place(step.a) = step.place(step.rows);  // its row count also counts as an input
  step.extend(kMatrixBytes);
  step.expect_fault({"node 0 'a' (linear): the output 'a' lies on the input 'rows'"});
}

TEST(ValidatePlan, AnAliasThatIsShifted) {
  Step step;
  step.place(step.norm.y) = step.extend(2 * kMatrixBytes);
  step.place(step.g) = step.place(step.norm.y) + kAlignmentBytes;
  step.expect_fault({"node 2 'g' (gelu): the output 'g' lies on the input 'norm:0'"});
}

TEST(ValidatePlan, TwoOutputsOfOneNodeOnOneAnother) {
  Step step;
  step.place(step.norm.normalized) = step.place(step.norm.y);
  step.expect_fault({"node 1 'norm' (layer_norm): two outputs overlap at 'norm:1'"});
}

TEST(ValidatePlan, BadScratch) {
  Step step;
  step.plan.scratch_offsets[0] = step.place(step.x);
  step.expect_fault({"node 0 'a' (linear): the scratch lies on the input 'x'"});
  step = Step();
  step.place(step.a) = step.plan.scratch_offsets[0] = step.extend(kMatrixBytes);
  step.expect_fault({"node 0 'a' (linear): the output 'a' lies on the scratch"});
  step = Step();
  step.plan.scratch_offsets[0] = step.extend(256) + 32;
  step.expect_fault({"node 0 'a' (linear): the scratch is not aligned"});
  step = Step();
  step.plan.scratch_offsets[0] = step.plan.arena_bytes() - 128;  // it takes 192
  step.expect_fault({"node 0 'a' (linear): the scratch leaves its part of the arena"});
  step = Step();
  step.plan.scratch_offsets[0] = 0;
  step.expect_fault({"node 0 'a' (linear): the scratch leaves its part of the arena"});
}

TEST(ValidatePlan, ScratchOnAValueThatIsReadLater) {
  Step step;
  step.plan.scratch_offsets[4] = step.extend(64);
  step.place(step.norm.rstd) = step.plan.scratch_offsets[4];  // an output of the graph
  step.expect_fault({"'norm:2' has been overwritten before the end of the step"});
}

TEST(ValidatePlan, AStateThatDoesNotStayInItsBytes) {
  Step step;
  step.place(step.sum_after) = step.place(step.idle);
  step.expect_fault({"node 3 'add_to_sum' (accumulate): the output 'sum' does not take its input's bytes"});
}

TEST(ValidatePlan, AStateThatIsNotWholeAtTheEnd) {
  Step step;
  step.place(step.idle_too) = step.place(step.idle);  // no node reads either, but the next step's would
  step.expect_fault({"'idle' has been overwritten before the end of the step"});
  step = Step();
  step.place(step.other) = step.place(step.sum);  // node 3 writes both
  step.expect_fault({"'sum' has been overwritten before node 3"});
}

TEST(ValidatePlan, AnOutputOfTheGraphThatIsOverwritten) {
  Graph graph;
  const ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix);
  const ValueId early = linear(graph, "early", x, w, kNoValue, kNoValue);
  const ValueId late = linear(graph, "late", x, w, kNoValue, kNoValue);
  graph.mark_output(early);
  PersistentLayout layout;
  layout.add(graph);
  MemoryPlan plan = plan_memory(graph, {}, layout);
  plan.value_offsets[static_cast<std::size_t>(late)] = plan.value_offsets[static_cast<std::size_t>(early)];
  expect_error<InternalError>([&] { validate_plan(graph, plan, {}); },
                              {"'early' has been overwritten before the end of the step"});
}

// 0 linear q, which forks and is joined before node 3; 1 gelu of x; 2 gelu of that; 3 their sum
struct ForkingStep {
  Graph graph;
  ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix);
  ValueId q = linear(graph, "q", x, w, kNoValue, kNoValue);
  ValueId b = add_single(graph, {.op = Op::kGelu, .name = "b", .inputs = {x}});
  ValueId c = add_single(graph, {.op = Op::kGelu, .name = "c", .inputs = {b}});
  ValueId last = add(graph, "last", c, q, kNoValue);
  std::vector<std::size_t> scratch = {192, 64, 0, 0};
  MemoryPlan plan;

  ForkingStep() {
    graph.mark_output(last);
    PersistentLayout layout;
    layout.add(graph);
    plan = plan_memory(graph, scratch, layout, 2);
  }
  std::size_t& place(ValueId value) { return plan.value_offsets[static_cast<std::size_t>(value)]; }
  void expect_fault(std::initializer_list<std::string_view> parts) const {
    expect_error<InternalError>([&] { validate_plan(graph, plan, scratch); }, parts);
  }
};

TEST(ValidatePlan, BytesOfANodeThatMayStillBeRunning) {
  ForkingStep step;
  ASSERT_EQ(step.plan.joins, (std::vector<NodeId>{3, kNoNode, kNoNode, kNoNode}));
  step.place(step.b) = step.place(step.x);  // which gelu may take, but q's product reads
  step.expect_fault({"node 1 'b' (gelu): it meets the bytes of node 0 'q', which has forked and is joined before node 3"});
  step.plan.joins = {kNoNode, kNoNode, kNoNode, kNoNode};
  EXPECT_NO_THROW(validate_plan(step.graph, step.plan, step.scratch));

  step = ForkingStep();
  step.plan.scratch_offsets[1] = step.plan.scratch_offsets[0];
  step.expect_fault({"node 1 'b' (gelu): it meets the bytes of node 0 'q'"});
  step = ForkingStep();
  step.plan.joins[0] = 4;  // after `last` has read it
  step.expect_fault({"node 3 'last' (add): it meets the bytes of node 0 'q'"});
}

TEST(ValidatePlan, JoinsThatCannotBe) {
  ForkingStep step;
  step.plan.joins[0] = 0;
  step.expect_fault({"node 0 forks and is joined before node 0"});
  step.plan.joins[0] = 5;
  step.expect_fault({"node 0 forks and is joined before node 5"});
  step.plan.joins.pop_back();
  step.expect_fault({"the plan knows of each node whether it forks"});
}

}  // namespace
}  // namespace plimsoll::test
