// Compares programs on the reference backend with test/support/graph_runner.h, which gives every value its own memory.
#include "runtime/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "backend/reference/reference_backend.h"
#include "support/expect_error.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

const TensorType kMatrix{DType::kF32, {4, 4}};

// One arena, filled with NaN bytes, and programs over it.
class Arena {
 public:
  explicit Arena(std::vector<Graph> graphs) {
    PersistentLayout layout;
    std::vector<PreparedGraph> prepared;
    for (Graph& graph : graphs) prepared.push_back(prepare(std::move(graph), backend_));
    for (const PreparedGraph& one : prepared) layout.add(one.graph);
    std::vector<MemoryPlan> plans;
    std::size_t bytes = 0;
    for (const PreparedGraph& one : prepared) {
      plans.push_back(plan_memory(one.graph, one.scratch_bytes(), layout));
      bytes = std::max(bytes, plans.back().arena_bytes());
    }
    memory_ = backend_.allocate(bytes);
    std::memset(memory_->bytes().data(), 0xFF, bytes);
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      programs.emplace_back(std::move(prepared[i]), plans[i], *memory_);
    }
  }

  std::vector<Program> programs;

 private:
  ReferenceBackend backend_;
  std::unique_ptr<DeviceMemory> memory_;
};

void set(const Program& program, const Data& data) {
  for (const auto& [name, values] : data) from_doubles(program.source(name).view(), values);
}

std::vector<double> read(const TensorView& view) {
  return to_doubles(view, view.shape().rank() == 0 ? 1 : view.shape()[0]);
}

// Returns a complete update of the small net.
Graph update_graph() {
  SmallNet net;
  append_optimizer(net.graph, net.gradients, {.adamw = {.weight_decay = 0.1}, .decays = {}});
  return net.graph;
}

Data moments(const Graph& graph) {
  Data data;
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode || value.role != Role::kState) continue;
    data[value.name].assign(static_cast<std::size_t>(value.type.shape.elements()), 0.0);
  }
  return data;
}

Data update_scalars(int step) {
  return {{"learning_rate", {0.05}}, {"step", {static_cast<double>(step)}}, {"max_grad_norm", {1}}};
}

TEST(Program, GivesWhatEveryValueInItsOwnMemoryGives) {
  const Graph graph = update_graph();
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  const Arena arena({graph});
  const Program& program = arena.programs[0];
  EXPECT_LT(program.plan().transient_bytes, [&] {
    std::size_t sum = 0;
    for (const Value& value : graph.values()) sum += is_persistent(value.role) ? 0 : value.type.bytes();
    return sum;
  }()) << "the plan does not share memory: the test shows nothing";
  const Data weights = SmallNet().weights();
  for (const Data& data : {weights, moments(graph)}) {
    set_all(runner, data);
    set(program, data);
  }
  for (int step = 1; step <= 3; ++step) {
    for (const Data& data : {SmallNet::batch(step), update_scalars(step)}) {
      set_all(runner, data);
      set(program, data);
    }
    runner.run();
    program.run();
    for (const ValueId output : graph.outputs()) {
      EXPECT_EQ(read(program.view(output)), runner.made(output)) << graph.value(output).name << ", step " << step;
    }
    for (const Value& value : graph.values()) {
      if (value.producer != kNoNode || !is_persistent(value.role)) continue;
      EXPECT_EQ(read(program.source(value.name).view()), runner.get(graph.find_source(value.name))) << value.name;
    }
  }
  EXPECT_NE(read(program.source("expand.weight").view()), weights.at("expand.weight"));
}

TEST(Program, RunsNodeByNode) {
  const Graph graph = update_graph();
  const Arena whole({graph}), steps({graph});
  for (const Arena* arena : {&whole, &steps}) {
    for (const Data& data : {SmallNet().weights(), moments(graph), SmallNet::batch(0), update_scalars(1)}) {
      set(arena->programs[0], data);
    }
  }
  whole.programs[0].run();
  ASSERT_EQ(steps.programs[0].node_count(), graph.nodes().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) steps.programs[0].run_node(n);
  for (const char* name : {"table.weight", "expand.weight", "classifier.bias.exp_avg"}) {
    EXPECT_EQ(read(steps.programs[0].source(name).view()), read(whole.programs[0].source(name).view())) << name;
  }
}

TEST(Program, OutputsOutliveTheStep) {
  Graph graph;
  const ValueId w = graph.add_parameter("w", kMatrix);
  ValueId x = graph.add_input("x", kMatrix);
  std::vector<ValueId> values = {x};
  for (const char* name : {"a", "b", "c", "d", "e"})
    values.push_back(x = linear(graph, name, x, w, kNoValue, kNoValue));
  graph.mark_output(values[1]);
  graph.mark_output(values[5]);
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  const Arena arena({graph});
  const Data data = {{"x", numbers(16, 1)}, {"w", numbers(16, 2)}};
  set_all(runner, data);
  set(arena.programs[0], data);
  runner.run();
  arena.programs[0].run();
  EXPECT_EQ(read(arena.programs[0].view(values[1])), runner.made(values[1]));
  EXPECT_EQ(read(arena.programs[0].view(values[5])), runner.made(values[5]));
  EXPECT_NE(read(arena.programs[0].view(values[2])), runner.made(values[2])) << "b's bytes were taken: else no reuse";
}

TEST(Program, SourcesByName) {
  const Arena arena({update_graph()});
  const Program& program = arena.programs[0];
  EXPECT_EQ(program.source("ids").type(), (TensorType{DType::kI32, {SmallNet::kRows}}));
  EXPECT_EQ(program.source("expand.weight").view().raw(),
            program.view(program.graph().find_source("expand.weight")).raw());
  EXPECT_TRUE(program.has_source("table.weight.exp_avg"));
  EXPECT_FALSE(program.has_source("gelu"));  // a node made it
  expect_error<InternalError>([&] { program.source("gelu"); }, {"no input, parameter or state named 'gelu'"});
  expect_error<InternalError>([&] { program.source(""); }, {"named ''"});
}

TEST(Program, SeveralShareOneArena) {
  // Training and evaluation alternate: they share parameters and moments; the rest belongs to the running program.
  const Graph update = update_graph(), forward = SmallNet(DType::kF32, false).graph;
  const Arena shared({forward, update}), alone({update});
  const Program &evaluate = shared.programs[0], &train = shared.programs[1], &expected = alone.programs[0];
  EXPECT_EQ(evaluate.source("expand.weight").view().raw(), train.source("expand.weight").view().raw());
  EXPECT_FALSE(evaluate.has_source("expand.weight.exp_avg"));
  for (const Program* program : {&train, &expected}) {
    set(*program, SmallNet().weights());
    set(*program, moments(update));
  }
  double last_loss = 0;
  for (int step = 1; step <= 3; ++step) {
    for (const Program* program : {&train, &expected}) {
      set(*program, SmallNet::batch(0));
      set(*program, update_scalars(step));
      program->run();
    }
    for (const Value& value : update.values()) {
      if (value.producer != kNoNode || !is_persistent(value.role)) continue;
      EXPECT_EQ(read(train.source(value.name).view()), read(expected.source(value.name).view()))
          << value.name << ", step " << step;
    }
    set(evaluate, SmallNet::batch(1));
    evaluate.run();
    const double loss = read(evaluate.view(evaluate.graph().outputs()[0])).at(0);
    EXPECT_NE(loss, last_loss) << "evaluation sees the updated parameters";
    last_loss = loss;
  }
}

TEST(Program, RefusesAnArenaThatIsTooSmallAndThePlanOfAnotherGraph) {
  const Graph graph = update_graph();
  ReferenceBackend backend;
  PersistentLayout layout;
  layout.add(graph);
  const MemoryPlan plan = plan_memory(graph, prepare(graph, backend).scratch_bytes(), layout);
  const auto memory = backend.allocate(plan.arena_bytes());
  EXPECT_NO_THROW(Program(prepare(graph, backend), plan, *memory));
  expect_error<InternalError>(
      [&] { Program(prepare(graph, backend), plan, *backend.allocate(plan.arena_bytes() - 1)); },
      {"the arena holds the plan"});
  expect_error<InternalError>([&] { Program(prepare(SmallNet(DType::kF32, false).graph, backend), plan, *memory); },
                              {"the plan belongs to the graph"});
}

TEST(Prepare, HasAKernelForEachNode) {
  const Graph graph = update_graph();
  ReferenceBackend backend;
  const PreparedGraph prepared = prepare(graph, backend);
  ASSERT_EQ(prepared.kernels.size(), graph.nodes().size());
  const std::vector<std::size_t> scratch = prepared.scratch_bytes();
  ASSERT_EQ(scratch.size(), graph.nodes().size());
  for (std::size_t n = 0; n < scratch.size(); ++n) EXPECT_EQ(scratch[n], prepared.kernels[n]->scratch_bytes());
  EXPECT_GT(*std::max_element(scratch.begin(), scratch.end()), 0U);
}

TEST(Prepare, VerifiesTheGraph) {
  Graph graph;
  const ValueId sum = graph.add_state("sum", kMatrix), x = graph.add_input("x", kMatrix);
  const ValueId keep = graph.add_input("keep", {DType::kI32, {1}});
  add_single(graph, {.op = Op::kAccumulate, .name = "accumulate", .inputs = {sum, x, keep}});
  add(graph, "stale", sum, x, kNoValue);  // reads the sum before it changed
  ReferenceBackend backend;
  expect_error<InternalError>([&] { prepare(graph, backend); }, {"'stale'", "'sum'"});
}

}  // namespace
}  // namespace plimsoll::test
