// The rows of the op catalogue (graph/op_facts.h) against the cases of all ops and what the reference kernels do.
#include "graph/op_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "backend/op_case.h"
#include "backend/reference/reference_backend.h"
#include "backend/widened_kernel.h"

namespace plimsoll::test {
namespace {

constexpr std::byte kUnwritten{0xA5};

Op op_at(std::size_t i) { return static_cast<Op>(i); }

// Visits every node of every case, forward and backward.
void for_each_node(const std::vector<OpCase>& cases, DType dtype,
                   const std::function<void(const Graph&, const Node&)>& visit) {
  for (const OpCase& op_case : cases) {
    SCOPED_TRACE(op_case.name);
    const BuiltCase built = op_case.build(dtype, true);
    for (const Node& node : built.graph.nodes()) visit(built.graph, node);
  }
}

// The reference backend; its kernels count the leading rows of each output that they write, and compare the number with
// the facts.
class RowCountingBackend final : public Backend {
 public:
  std::string_view name() const override { return "row counting"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
    // A widened kernel also rounds rows that it has not computed.
    if (needs_widening(graph, node)) return reference_.prepare(graph, node);
    return std::make_unique<Counting>(node, reference_.prepare(graph, node));
  }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return reference_.allocate(bytes); }

 private:
  class Counting final : public Kernel {
   public:
    Counting(const Node& node, std::unique_ptr<Kernel> kernel) : node_(node), kernel_(std::move(kernel)) {}
    std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
    void run(const KernelArguments& arguments) const override {
      const auto shares = [&](const TensorView& output) {
        return std::ranges::any_of(arguments.inputs, [&](const TensorView& in) { return in.raw() == output.raw(); });
      };
      for (const TensorView& output : arguments.outputs) {
        if (!shares(output)) std::memset(output.raw(), static_cast<int>(kUnwritten), output.type().bytes());
      }
      kernel_->run(arguments);
      const auto read = [&](ValueId value) -> std::int64_t {
        if (value == node_.row_count) return *arguments.row_count;
        const auto output = std::ranges::find(node_.outputs, value) - node_.outputs.begin();
        return *arguments.outputs[static_cast<std::size_t>(output)].data<std::int32_t>();
      };
      for (std::size_t i = 0; i < arguments.outputs.size(); ++i) {
        const TensorView& output = arguments.outputs[i];
        if (shares(output) || output.elements() == 0) continue;
        const std::int64_t capacity = output.shape().rank() == 0 ? 1 : output.shape()[0];
        const std::size_t row_bytes = output.type().bytes() / static_cast<std::size_t>(capacity);
        const std::int64_t defined = defined_rows(node_, i, read).value_or(capacity);
        for (std::int64_t row = 0; row < capacity; ++row) {
          const auto* const bytes =
              static_cast<const std::byte*>(output.raw()) + static_cast<std::size_t>(row) * row_bytes;
          const bool written = std::any_of(bytes, bytes + row_bytes, [](std::byte b) { return b != kUnwritten; });
          EXPECT_EQ(written, row < defined) << op_name(node_.op) << ", output " << i << ", row " << row;
        }
      }
    }

   private:
    Node node_;
    std::unique_ptr<Kernel> kernel_;
  };

  ReferenceBackend reference_;
};

TEST(OpFacts, RowsThatOutputsDefineAreThoseThatKernelsWrite) {
  RowCountingBackend backend;
  for (const OpCase& op_case : all_cases()) {
    SCOPED_TRACE(op_case.name);
    const BuiltCase built = op_case.build(DType::kF32, true);
    GraphRunner runner(built.graph, backend);
    built.set_data(runner);
    runner.run();
  }
}

// Kernels with outputs in place of inputs are compared by the suite; here, that every alias can hold.
TEST(OpFacts, AliasesJoinTensorsOfTheSameType) {
  std::set<std::pair<Op, std::size_t>> held;  // op, position among its aliases
  for_each_node(all_cases(), DType::kF32, [&](const Graph& graph, const Node& node) {
    const std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
    for (std::size_t i = 0; i < aliases.size(); ++i) {
      ASSERT_LT(aliases[i].input, node.inputs.size()) << op_name(node.op);
      ASSERT_LT(aliases[i].output, node.outputs.size()) << op_name(node.op);
      const Value& input = graph.value(node.inputs[aliases[i].input]);
      const Value& output = graph.value(node.outputs[aliases[i].output]);
      const bool same = input.type == output.type;
      if (aliases[i].kind == Alias::Kind::kMust) {
        EXPECT_TRUE(same && is_persistent(input.role)) << op_name(node.op) << " changes " << input.name;
      }
      if (same) held.emplace(node.op, i);
    }
  });
  for (std::size_t i = 0; i < kOpCount; ++i) {
    for (std::size_t pair = 0; pair < op_facts(op_at(i)).aliases.pair_count; ++pair) {
      EXPECT_TRUE(held.contains({op_at(i), pair})) << op_name(op_at(i)) << ", alias " << pair;
    }
  }
}

// The suite compares these cases with the reference on every backend.
TEST(OpFacts, WhatTakesHalvesOrCodesHasCasesOfThem) {
  std::set<Op> half, coded;
  const auto note = [&](const Graph& graph, const Node& node) {
    if (any_tensor(graph, node, is_half)) half.insert(node.op);
    if (any_tensor(graph, node, is_coded)) coded.insert(node.op);
  };
  for_each_node(half_cases(), DType::kBF16, note);
  for_each_node(all_cases(), DType::kF32, note);
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const OpFacts& facts = op_facts(op_at(i));
    EXPECT_TRUE(!facts.takes_halves || half.contains(facts.op)) << facts.name;
    EXPECT_EQ(facts.takes_codes, coded.contains(facts.op)) << facts.name;
  }
}

TEST(OpFacts, OutputsThatAreCheapAndIndicesExist) {
  std::vector<std::size_t> outputs(kOpCount, 0);  // the most that a node of the op has
  for_each_node(all_cases(), DType::kF32, [&](const Graph& graph, const Node& node) {
    const OpFacts& facts = op_facts(node.op);
    std::size_t& most = outputs[static_cast<std::size_t>(node.op)];
    most = std::max(most, node.outputs.size());
    // The biases' readers are priced as if they made them.
    EXPECT_TRUE(facts.work(graph, node) > 0 || node.op == Op::kAttentionBias) << facts.name;
    if (facts.indices == nullptr) return;
    const IndexRange range = facts.indices(graph, node);
    ASSERT_LT(range.input, node.inputs.size()) << facts.name;
    EXPECT_EQ(graph.type(node.inputs[range.input]).dtype, DType::kI32) << facts.name;
    EXPECT_LT(range.low, range.end) << facts.name;
  });
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const OpFacts& facts = op_facts(op_at(i));
    if (is_transfer(facts.op) || is_collective(facts.op)) continue;
    EXPECT_LE(facts.cheap_outputs, outputs[i]) << facts.name;
    EXPECT_TRUE(facts.cheap_outputs == 0 || facts.op < Op::kEmbeddingGrad) << facts.name << " belongs to no forward";
  }
}

}  // namespace
}  // namespace plimsoll::test
