// Tests lifetimes, aliases, scratch and the explanation of the peak, on graphs small enough to work out by hand.
#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes.h"
#include "graph/build.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

constexpr std::size_t kRowsBytes = 64;      // i32[1], rounded up
constexpr std::size_t kMatrixBytes = 1024;  // f32[16, 16]
const TensorType kMatrix{DType::kF32, {16, 16}};

ValueId gelu(Graph& graph, const char* name, ValueId x) {
  return add_single(graph, {.op = Op::kGelu, .name = name, .inputs = {x}});
}

std::map<std::string, Buffer> by_name(const std::vector<Buffer>& buffers) {
  std::map<std::string, Buffer> result;
  for (const Buffer& buffer : buffers) result[buffer.name] = buffer;
  EXPECT_EQ(result.size(), buffers.size());
  return result;
}

void expect_life(const Buffer& buffer, std::int64_t begin, std::int64_t end, std::size_t bytes) {
  EXPECT_EQ(buffer.life.begin, begin) << buffer.name;
  EXPECT_EQ(buffer.life.end, end) << buffer.name;
  EXPECT_EQ(buffer.life.bytes, bytes) << buffer.name;
}

MemoryPlan plan_of(const Graph& graph, std::span<const std::size_t> scratch_bytes = {}) {
  PersistentLayout layout;
  layout.add(graph);
  return plan_memory(graph, scratch_bytes, layout);
}

// x -> a -> b -> c by linear layers, which never write in place.
struct Chain {
  Graph graph;
  ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix),
          rows = graph.add_input("rows", {DType::kI32, {1}});
  ValueId a = linear(graph, "a", x, w, kNoValue, kNoValue), b = linear(graph, "b", a, w, kNoValue, rows),
          c = linear(graph, "c", b, w, kNoValue, kNoValue);
};

TEST(FindBuffers, ValuesLiveFromTheirNodeToTheirLastReader) {
  const auto buffers = by_name(find_buffers(Chain().graph, {}));
  ASSERT_EQ(buffers.size(), 5U);  // w is not among them
  expect_life(buffers.at("x"), 0, 1, kMatrixBytes);
  expect_life(buffers.at("rows"), 0, 2, kRowsBytes);  // node b's row count counts as a read
  expect_life(buffers.at("a"), 0, 2, kMatrixBytes);
  expect_life(buffers.at("b"), 1, 3, kMatrixBytes);
  expect_life(buffers.at("c"), 2, 3, kMatrixBytes);  // nobody reads it, but its node writes it
}

TEST(FindBuffers, OutputsLiveToTheEnd) {
  Chain chain;
  chain.graph.mark_output(chain.a);
  chain.graph.mark_output(chain.x);
  const auto buffers = by_name(find_buffers(chain.graph, {}));
  expect_life(buffers.at("a"), 0, 4, kMatrixBytes);
  expect_life(buffers.at("x"), 0, 4, kMatrixBytes);
  expect_life(buffers.at("b"), 1, 3, kMatrixBytes);
}

TEST(FindBuffers, AnInputThatNobodyReadsHasItsPlace) {
  Graph graph;
  graph.add_input("idle", kMatrix);
  gelu(graph, "y", graph.add_input("x", kMatrix));
  expect_life(by_name(find_buffers(graph, {})).at("idle"), 0, 1, kMatrixBytes);
}

TEST(FindBuffers, AnOutputTakesTheBytesOfAnInputThatDies) {
  Chain chain;
  const ValueId g = gelu(chain.graph, "g", chain.c), h = gelu(chain.graph, "h", g);
  chain.graph.mark_output(h);
  const auto buffers = by_name(find_buffers(chain.graph, {}));
  EXPECT_EQ(buffers.at("c").values, (std::vector<ValueId>{chain.c, g, h}));
  expect_life(buffers.at("c"), 2, 6, kMatrixBytes);
  const MemoryPlan plan = plan_of(chain.graph);
  EXPECT_EQ(plan.value_offsets[static_cast<std::size_t>(h)], plan.value_offsets[static_cast<std::size_t>(chain.c)]);
}

TEST(FindBuffers, AnInputReadLaterOrByTheHostOrPersistentKeepsItsBytes) {
  Graph graph;
  const ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix);
  const ValueId first = gelu(graph, "first", x);    // x is read again
  const ValueId second = gelu(graph, "second", x);  // here it dies
  graph.mark_output(first);
  const ValueId third = gelu(graph, "third", first);  // the host reads `first`
  gelu(graph, "fourth", w);                           // a parameter
  const auto buffers = by_name(find_buffers(graph, {}));
  EXPECT_EQ(buffers.at("x").values, (std::vector<ValueId>{x, second}));
  EXPECT_EQ(buffers.at("first").values, std::vector<ValueId>{first});
  EXPECT_EQ(buffers.at("third").values, std::vector<ValueId>{third});
  EXPECT_EQ(buffers.count("fourth"), 1U);
}

TEST(FindBuffers, OneInputIsTakenOnlyOnce) {
  // add may take either input; both die, and the second one keeps its own buffer.
  Graph graph;
  const ValueId a = graph.add_input("a", kMatrix), b = graph.add_input("b", kMatrix);
  const ValueId sum = add(graph, "sum", a, b, kNoValue);
  auto buffers = by_name(find_buffers(graph, {}));
  EXPECT_EQ(buffers.size(), 2U);
  EXPECT_EQ(buffers.at("a").values, (std::vector<ValueId>{a, sum}));
  // If the first does not die, add takes the second.
  gelu(graph, "late", a);
  buffers = by_name(find_buffers(graph, {}));
  EXPECT_EQ(buffers.at("b").values, (std::vector<ValueId>{b, sum}));
}

TEST(FindBuffers, WhatMustBeTakenIsTaken) {
  Graph graph;
  const ValueId keep = graph.add_input("keep", {DType::kI32, {1}}), x = graph.add_input("x", kMatrix);
  const ValueId state = graph.add_state("sum", kMatrix), input = graph.add_input("scratch_sum", kMatrix);
  const ValueId in_state = add_single(graph, {.op = Op::kAccumulate, .name = "into_state", .inputs = {state, x, keep}});
  const ValueId in_input = add_single(graph, {.op = Op::kAccumulate, .name = "into_input", .inputs = {input, x, keep}});
  graph.mark_output(in_input);
  const auto buffers = by_name(find_buffers(graph, {}));
  EXPECT_EQ(buffers.size(), 3U);  // keep, x, scratch_sum
  EXPECT_EQ(buffers.at("scratch_sum").values, (std::vector<ValueId>{input, in_input}));
  expect_life(buffers.at("scratch_sum"), 0, 3, kMatrixBytes);
  const MemoryPlan plan = plan_of(graph);
  EXPECT_EQ(plan.value_offsets[static_cast<std::size_t>(in_state)],
            plan.value_offsets[static_cast<std::size_t>(state)]);
}

TEST(FindBuffers, ScratchLivesAtItsNode) {
  const auto buffers = by_name(find_buffers(Chain().graph, std::vector<std::size_t>{0, 100, 0}));
  ASSERT_EQ(buffers.size(), 6U);
  const Buffer& scratch = buffers.at("b (scratch)");
  expect_life(scratch, 1, 2, 128);
  EXPECT_EQ(scratch.scratch_of, 1);
  EXPECT_TRUE(scratch.values.empty());
}

TEST(PlanMemory, AChainNeedsTwoTensors) {
  Graph graph;
  const ValueId w = graph.add_parameter("w", kMatrix);
  ValueId x = graph.add_input("x", kMatrix);
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) x = linear(graph, name, x, w, kNoValue, kNoValue);
  graph.mark_output(x);
  const MemoryPlan plan = plan_of(graph);
  EXPECT_EQ(plan.persistent_bytes, kMatrixBytes);
  EXPECT_EQ(plan.lower_bound_bytes, 2 * kMatrixBytes);
  EXPECT_EQ(plan.transient_bytes, 2 * kMatrixBytes);
  EXPECT_EQ(plan.arena_bytes(), 3 * kMatrixBytes);
}

TEST(PlanMemory, PlacesEverythingInItsPart) {
  Chain chain;
  chain.graph.mark_output(chain.c);
  const ValueId other = chain.graph.add_parameter("other", {DType::kF32, {3}});
  const std::vector<std::size_t> scratch = {10, 5000, 0};
  const MemoryPlan plan = plan_of(chain.graph, scratch);
  EXPECT_EQ(plan.persistent_bytes, kMatrixBytes + 64);
  EXPECT_EQ(plan.value_offsets[static_cast<std::size_t>(chain.w)], 0U);
  EXPECT_EQ(plan.value_offsets[static_cast<std::size_t>(other)], kMatrixBytes);
  for (const ValueId value : {chain.x, chain.rows, chain.a, chain.b, chain.c}) {
    const std::size_t offset = plan.value_offsets[static_cast<std::size_t>(value)];
    EXPECT_GE(offset, plan.persistent_bytes);
    EXPECT_LE(offset + chain.graph.type(value).bytes(), plan.arena_bytes());
  }
  EXPECT_EQ(plan.peak_node, 1);  // rows, a, b and 5,056 bytes of scratch
  EXPECT_EQ(plan.transient_bytes, kRowsBytes + 2 * kMatrixBytes + 5056);
}

TEST(PlanMemory, ExplainsEachByteOfThePeak) {
  Graph graph;
  const ValueId x = graph.add_input("x", kMatrix), w = graph.add_parameter("w", kMatrix);
  const ValueId a = linear(graph, "a", x, w, kNoValue, kNoValue);
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});  // dies just before the peak
  const ValueId dx = add_single(
      graph,
      {.op = Op::kLinearInputGrad, .name = "dx", .inputs = {a, w}, .row_count = rows, .phase = Phase::kBackward});
  graph.add_node({.op = Op::kLinearInputGrad, .name = "ddx", .inputs = {dx, w}, .phase = Phase::kBackward});
  graph.mark_output(x);
  graph.mark_output(a);
  const MemoryPlan plan = plan_of(graph, std::vector<std::size_t>{0, 0, 4096});
  std::map<std::string, std::size_t> items;
  std::size_t sum = 0;
  for (const MemoryItem& item : explain_peak(plan)) {
    items[item.name] = item.bytes;
    sum += item.bytes;
  }
  EXPECT_EQ(sum, plan.transient_bytes);
  EXPECT_EQ(items, (std::map<std::string, std::size_t>{{"batch", kMatrixBytes},
                                                       {"activations", kMatrixBytes},
                                                       {"gradients", 2 * kMatrixBytes},
                                                       {"offload staging", 0},
                                                       {"kernel scratch", 4096},
                                                       {"holes", 0}}));
}

TEST(PersistentLayout, ProgramsShareWhatHasOneName) {
  Graph first, second;
  first.add_parameter("w", kMatrix);
  first.add_state("m", {DType::kF32, {5}});
  first.add_input("x", kMatrix);
  second.add_state("sum", {DType::kF32, {20}});
  second.add_parameter("w", kMatrix);
  PersistentLayout layout;
  layout.add(first);
  EXPECT_EQ(layout.bytes(), kMatrixBytes + 64);
  layout.add(second);
  layout.add(first);
  EXPECT_EQ(layout.bytes(), kMatrixBytes + 64 + 128);
  EXPECT_EQ(layout.entries().size(), 3U);
  EXPECT_EQ(layout.at("w").offset, 0U);
  EXPECT_EQ(layout.at("w").role, Role::kParameter);
  EXPECT_EQ(layout.at("m").offset, kMatrixBytes);
  EXPECT_EQ(layout.at("sum").offset, kMatrixBytes + 64);
  EXPECT_EQ(layout.at("sum").role, Role::kState);
}

TEST(PersistentLayout, OneNameWithTwoTypesIsRefused) {
  Graph first, second;
  first.add_parameter("w", kMatrix);
  second.add_parameter("w", {DType::kF32, {16, 8}});
  PersistentLayout layout;
  layout.add(first);
  expect_error<InternalError>([&] { layout.add(second); }, {"'w'", "F32[16, 16]", "F32[16, 8]"});
  expect_error<InternalError>([&] { layout.at("v"); }, {"no persistent value is named 'v'"});
}

TEST(PlanMemory, AGraphThatTheLayoutDoesNotKnowIsRefused) {
  const Chain chain;
  expect_error<InternalError>([&] { plan_memory(chain.graph, {}, PersistentLayout()); }, {"'w'"});
}

}  // namespace
}  // namespace plimsoll::test
