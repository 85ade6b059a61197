// Tests checked runs: each planted fault is found at its node and place, and nothing is found without a fault.
#include "runtime/checked_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "plan/memory_plan.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kRows = 4, kWidth = 3;

// x -> linear "first" -> gelu -> linear "second", with `rows` real rows; a look-up "words" beside it.
class Chain {
 public:
  Chain() {
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::kF32, {kRows, kWidth}});
    const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
    const ValueId ids = graph.add_input("ids", {DType::kI32, {kRows}});
    const ValueId first = graph.add_parameter("first.weight", {DType::kF32, {kWidth, kWidth}});
    const ValueId table = graph.add_parameter("table", {DType::kF32, {5, kWidth}});
    const ValueId bias = graph.add_parameter("bias", {DType::kF32, {kWidth}});
    const ValueId words = graph.add_node({.op = Op::kEmbedding,
                                          .name = "words",
                                          .attributes = EmbeddingAttributes{},
                                          .inputs = {table, ids},
                                          .row_count = rows})[0];
    ValueId y = linear(graph, "first", x, first, bias, rows);
    y = graph.add_node({.op = Op::kGelu, .name = "gelu", .inputs = {y}, .row_count = rows})[0];
    y = graph.add_node({.op = Op::kAdd, .name = "sum", .inputs = {y, words}, .row_count = rows})[0];
    graph.mark_output(y);
    PreparedGraph prepared = prepare(std::move(graph), backend_);
    PersistentLayout layout;
    layout.add(prepared.graph);
    MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory_ = backend_.allocate(plan.arena_bytes());
    program_.emplace(std::move(prepared), std::move(plan), *memory_);
    for (const char* name : {"x", "first.weight", "table", "bias"}) fill(name, 0.5F);
    *program_->source("rows").view().data<std::int32_t>() = 2;
    for (std::int32_t i = 0; i < kRows; ++i) program_->source("ids").view().data<std::int32_t>()[i] = i;
  }
  void fill(const char* name, float value) {
    for (float& each : program_->source(name).view().span<float>()) each = value;
  }
  float& at(const char* name, std::size_t element) { return program_->source(name).view().data<float>()[element]; }
  const Program& program() const { return *program_; }

 private:
  ReferenceBackend backend_;
  std::unique_ptr<DeviceMemory> memory_;
  std::optional<Program> program_;
};

TEST(CheckedRun, FindsNothingWhereNothingIs) {
  Chain chain;
  CheckedRun checked(chain.program());
  EXPECT_FALSE(checked.run());
}

TEST(CheckedRun, NamesTheNodeThatMakesIt) {
  Chain chain;
  for (std::size_t i = 0; i < kWidth; ++i) chain.at("first.weight", kWidth + i) = 3e38F;
  chain.fill("x", 2);
  const auto fault = CheckedRun(chain.program()).run();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, StepFault::Kind::kMade);
  EXPECT_EQ(fault->op, "linear");
  EXPECT_EQ(fault->node, "first");
  EXPECT_EQ(fault->index, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(fault->value, std::numeric_limits<double>::infinity());
  ASSERT_EQ(fault->inputs.size(), 3U);
  EXPECT_EQ(fault->inputs[1].name, "first.weight");
  EXPECT_EQ(fault->inputs[1].smallest, 0.5);
  EXPECT_EQ(fault->inputs[1].largest, double{3e38F});
  for (const TensorSummary& input : fault->inputs) EXPECT_EQ(input.not_finite, 0);
}

TEST(CheckedRun, NamesAParameterThatHoldsIt) {
  Chain chain;
  chain.at("first.weight", 7) = NAN;
  const auto fault = CheckedRun(chain.program()).run();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, StepFault::Kind::kHeld);
  EXPECT_EQ(fault->tensor, "first.weight");
  EXPECT_EQ(fault->node, "first");
  EXPECT_EQ(fault->index, (std::vector<std::int64_t>{2, 1}));
  EXPECT_TRUE(std::isnan(fault->value));
  EXPECT_EQ(fault->inputs[1].not_finite, 1);
}

TEST(CheckedRun, RefusesAnIndexOutsideItsTable) {
  for (const std::int32_t index : {-1, 5}) {
    Chain chain;
    chain.program().source("ids").view().data<std::int32_t>()[1] = index;
    const auto fault = CheckedRun(chain.program()).run();
    ASSERT_TRUE(fault) << index;
    EXPECT_EQ(fault->kind, StepFault::Kind::kIndex);
    EXPECT_EQ(fault->node, "words");
    EXPECT_EQ(fault->tensor, "ids");
    EXPECT_EQ(fault->index, std::vector<std::int64_t>{1});
    EXPECT_EQ(fault->value, index);
    EXPECT_EQ(fault->table_rows, 5);
  }
}

// From row 2 on nothing is real: neither an index nor a number there is a fault.
TEST(CheckedRun, LooksAtRealRowsOnly) {
  Chain chain;
  chain.program().source("ids").view().data<std::int32_t>()[2] = 99;
  EXPECT_FALSE(CheckedRun(chain.program()).run());
}

}  // namespace
}  // namespace plimsoll
