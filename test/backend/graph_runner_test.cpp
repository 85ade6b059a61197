// Tests the harness itself: a kernel commits every fault that it promises to catch.
#include "support/graph_runner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend_suite.h"
#include "backend/compare.h"
#include "backend/reference/reference_backend.h"
#include "support/far_backend.h"

namespace plimsoll::test {
namespace {

using Body = std::function<void(const KernelArguments&)>;

class BodyKernel final : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  std::size_t scratch_bytes() const override { return 12; }
  void run(const KernelArguments& arguments) const override { body_(arguments); }

 private:
  Body body_;
};

// Runs one body for every node.
class BodyBackend final : public Backend {
 public:
  explicit BodyBackend(Body body) : body_(std::move(body)) {}
  std::string_view name() const override { return "body"; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node&) override { return std::make_unique<BodyKernel>(body_); }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return ReferenceBackend().allocate(bytes); }

 private:
  Body body_;
};

// y = a + b over 3 of 5 rows of 3 columns.
BuiltCase sum_case() {
  return OpCase{"add/harness",
                [](CaseBuilder& b) {
                  const ValueId a = b.tensor("a", {5, 3}, 3);
                  b.objective(add(b.graph, "y", a, b.tensor("b", {5, 3}, 3), b.rows(3)));
                }}
      .build(DType::kF32, false);
}

void add_rows(const KernelArguments& arguments, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows * 3; ++i) {
    arguments.outputs[0].data<float>()[i] = arguments.inputs[0].data<float>()[i] + arguments.inputs[1].data<float>()[i];
  }
}

// Returns the message of the InternalError when the case's graph runs with `body`; empty if there is none.
std::string fault_of(const Body& body) {
  const BuiltCase built = sum_case();
  BodyBackend backend(body);
  GraphRunner runner(built.graph, backend);
  built.set_data(runner);
  try {
    runner.run();
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

TEST(GraphRunner, AcceptsAGoodKernel) {
  EXPECT_EQ(fault_of([](const KernelArguments& a) { add_rows(a, *a.row_count); }), "");
}

TEST(GraphRunner, CatchesAWriteBehindATensor) {
  const std::string fault = fault_of([](const KernelArguments& a) { a.outputs[0].data<float>()[15] = 1; });
  EXPECT_NE(fault.find("node 0 'y' (add) writes outside a tensor"), std::string::npos) << fault;
}

TEST(GraphRunner, CatchesAWriteBeforeATensor) {
  const std::string fault = fault_of([](const KernelArguments& a) { a.outputs[0].data<float>()[-1] = 1; });
  EXPECT_NE(fault.find("writes outside a tensor"), std::string::npos) << fault;
}

TEST(GraphRunner, CatchesAWriteBehindTheScratch) {
  const std::string fault = fault_of([](const KernelArguments& a) { a.scratch.data()[12] = std::byte{0}; });
  EXPECT_NE(fault.find("writes outside its scratch"), std::string::npos) << fault;
}

TEST(GraphRunner, CatchesAChangedInput) {
  const std::string fault = fault_of([](const KernelArguments& a) { a.inputs[1].data<float>()[4] += 1; });
  EXPECT_NE(fault.find("changes its input 1"), std::string::npos) << fault;
}

TEST(GraphRunner, PoisonsRowsThatAreNotReal) {
  const BuiltCase built = sum_case();
  double seen = 0;
  BodyBackend backend([&](const KernelArguments& a) {
    seen = a.inputs[0].data<float>()[9];  // the fourth row
    add_rows(a, 5);
  });
  GraphRunner runner(built.graph, backend);
  built.set_data(runner);
  runner.run();
  EXPECT_TRUE(std::isnan(seen));
  EXPECT_EQ(runner.made("y").size(), 9U);  // three rows are defined
  EXPECT_TRUE(std::isnan(runner.get(built.objectives[0])[9]));
}

// Computes x = tanh(input) over 3 of 5 rows, read by two nodes, the first of which writes into x at `index`. Returns
// what the second one finds there, or NaN with the fault.
std::pair<double, std::string> written_into_input(std::size_t index) {
  Graph graph;
  const ValueId input = graph.add_input("input", {DType::kF32, {5, 3}});
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
  const auto tanh_of = [&](std::string name, ValueId of) {
    return add_single(graph, {.op = Op::kTanh, .name = std::move(name), .inputs = {of}, .row_count = rows});
  };
  const ValueId x = tanh_of("x", input);
  tanh_of("first", x);
  tanh_of("second", x);
  int node = 0;
  double seen = NAN;
  BodyBackend backend([&](const KernelArguments& a) {
    float* const found = a.inputs[0].data<float>();
    if (++node == 3) seen = found[index];
    for (int i = 0; i < 9; ++i) a.outputs[0].data<float>()[i] = 1;
    if (node == 2) found[index] = 7;
  });
  GraphRunner runner(graph, backend);
  runner.set("input", std::vector<double>(9, 0.5));
  runner.set("rows", std::vector<double>{3});
  try {
    runner.run();
  } catch (const InternalError& error) {
    return {NAN, error.what()};
  }
  return {seen, ""};
}

TEST(GraphRunner, AllowsWritesToRowsOfAnInputThatNobodyWasPromised) {
  const auto [seen, fault] = written_into_input(9);
  EXPECT_EQ(fault, "");
  EXPECT_TRUE(std::isnan(seen));  // poisoned again
  EXPECT_NE(written_into_input(8).second.find("'first' (tanh) changes its input 0"), std::string::npos);
}

// A kernel's faults are caught in memory that the host cannot access just as in the host's own; and the runner itself
// never follows an address there, which would cause a segmentation fault.
TEST(GraphRunner, CatchesTheSameFaultsInFarMemory) {
  const auto far_fault_of = [](const Body& body) {
    const BuiltCase built = sum_case();
    BodyBackend near(body);
    FarBackend far(near);
    GraphRunner runner(built.graph, far);
    built.set_data(runner);
    try {
      runner.run();
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    EXPECT_EQ(runner.made("y").size(), 9U);
    EXPECT_TRUE(std::isnan(runner.get(built.objectives[0])[9]));
    return std::string();
  };
  const auto expect_fault = [&](std::string_view expected, const Body& body) {
    const std::string fault = far_fault_of(body);
    EXPECT_NE(fault.find(expected), std::string::npos) << fault;
  };
  EXPECT_EQ(far_fault_of([](const KernelArguments& a) { add_rows(a, *a.row_count); }), "");
  expect_fault("writes outside a tensor", [](const KernelArguments& a) { a.outputs[0].data<float>()[15] = 1; });
  expect_fault("writes outside a tensor", [](const KernelArguments& a) { a.outputs[0].data<float>()[-1] = 1; });
  expect_fault("outside its scratch", [](const KernelArguments& a) { a.scratch.data()[12] = std::byte{0}; });
  expect_fault("changes its input 1", [](const KernelArguments& a) { a.inputs[1].data<float>()[4] += 1; });
}

std::unique_ptr<Backend> far_reference() {
  static ReferenceBackend near;
  return std::make_unique<FarBackend>(near);
}

INSTANTIATE_TEST_SUITE_P(FarMemory, BackendSuite, testing::ValuesIn(suite_of("far", far_reference)), suite_test_name);

TEST(GraphRunner, TellsTheHostsBound) {
  const BuiltCase built = sum_case();
  for (const std::optional<std::int64_t> slack : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
    std::int64_t bound = 0;
    BodyBackend backend([&](const KernelArguments& a) {
      bound = a.bound(5);
      add_rows(a, *a.row_count);
    });
    GraphRunner runner(built.graph, backend, {.bound_slack = slack});
    built.set_data(runner);
    runner.run();
    EXPECT_EQ(bound, slack ? 4 : 5);
  }
}

TEST(GraphRunner, PutsOutputsIntoDyingInputsAsAsked) {
  const BuiltCase built = sum_case();
  for (const Reuse reuse : {Reuse::kNever, Reuse::kFirst, Reuse::kLast}) {
    const void* memory[3] = {};
    BodyBackend backend([&](const KernelArguments& a) {
      memory[0] = a.inputs[0].raw();
      memory[1] = a.inputs[1].raw();
      memory[2] = a.outputs[0].raw();
      add_rows(a, *a.row_count);
    });
    GraphRunner runner(built.graph, backend, {.reuse = reuse});
    built.set_data(runner);
    runner.run();
    EXPECT_EQ(memory[2] == memory[0], reuse == Reuse::kFirst);
    EXPECT_EQ(memory[2] == memory[1], reuse == Reuse::kLast);
  }
}

TEST(GraphRunner, KeepsInputsThatLiveOn) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {2, 2}});
  const ValueId tanh = add_single(graph, {.op = Op::kTanh, .name = "tanh", .inputs = {x}});
  add(graph, "sum", tanh, x, kNoValue);
  ReferenceBackend backend;
  GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
  runner.set("x", std::vector<double>{0, 1, 0, 1});
  runner.run();
  EXPECT_EQ(runner.made("sum")[0], 0);
  EXPECT_NEAR(runner.made("sum")[1], 1 + std::tanh(1.0), 1e-6);
}

TEST(UsedTolerance, IsTheLargestShareOfWhatIsAllowed) {
  const Tolerance tolerance{.relative = 0.1, .absolute = 0.01, .reason = ""};
  const std::vector<double> expected = {1, 10, 0};
  EXPECT_EQ(used_tolerance(expected, expected, tolerance), 0);
  EXPECT_NEAR(used_tolerance(std::vector<double>{1, 10, 0.05}, expected, tolerance), 0.5, 1e-12);
  EXPECT_NEAR(used_tolerance(std::vector<double>{1.4, 10, 0}, expected, tolerance), 2, 1e-12);
  EXPECT_EQ(used_tolerance(std::vector<double>{1, 10}, expected, tolerance), INFINITY);
  EXPECT_EQ(used_tolerance(std::vector<double>{1, 10, NAN}, expected, tolerance), INFINITY);
  EXPECT_EQ(used_tolerance(std::vector<double>{1, 10, 1e-30}, expected, {}), INFINITY);
  const std::vector<double> infinite = {-INFINITY, 1};
  EXPECT_EQ(used_tolerance(infinite, infinite, tolerance), 0);
  EXPECT_EQ(used_tolerance(std::vector<double>{-1e9, 1}, infinite, tolerance), INFINITY);
}

}  // namespace
}  // namespace plimsoll::test
