// Tests which nodes a program asks a backend to run as one.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "graph/build.h"
#include "graph/product_batches.h"
#include "runtime/program.h"
#include "transform/optimizer.h"

namespace plimsoll::test {
namespace {

// Records what runs; accepts every offer to join, if it records.
class JoiningBackend final : public Backend {
 public:
  explicit JoiningBackend(bool records) : records_(records) {}
  std::string_view name() const override { return "joining"; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node& node) override {
    return std::make_unique<NotingKernel>(node, *this);
  }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return near_.allocate(bytes); }
  std::unique_ptr<Recorder> make_recorder() override { return records_ ? std::make_unique<PlainRecorder>() : nullptr; }

  std::size_t scratch_bytes = 0;  // that of updates and products
  std::size_t most_joined = 100;
  std::vector<std::string> ran;

 private:
  struct NotingKernel final : Kernel {
    NotingKernel(const Node& node, JoiningBackend& of) : name(node.name), backend(of), scratch(scratch_of(node)) {}
    std::size_t scratch_of(const Node& node) const {
      return node.op == Op::kAdamW || is_product(node.op) ? backend.scratch_bytes : 0;
    }
    std::size_t scratch_bytes() const override { return scratch; }
    void run(const KernelArguments&) const override { backend.ran.push_back(name); }
    JoinedCalls join(std::span<const KernelCall> calls) const override {
      if (calls.size() > backend.most_joined) return {};
      std::string all;
      for (const KernelCall& call : calls)
        all += (all.empty() ? "" : "+") + static_cast<const NotingKernel*>(call.kernel)->name;
      return [all, this](std::int64_t) { backend.ran.push_back(all); };
    }
    std::string name;
    JoiningBackend& backend;
    std::size_t scratch;
  };
  struct PlainRecorder final : Recorder {
    void run(std::int64_t, const std::function<void()>& start) override { start(); }
    double device_seconds() override { return 0; }
  };

  bool records_;
  ReferenceBackend near_;
};

Graph three_updates(bool early) {
  Graph graph;
  Gradients gradients;
  for (const std::string name : {"a", "b", "c"}) {
    const ValueId parameter = graph.add_parameter(name, {DType::kF32, {8}});
    gradients[parameter] = {.dense = graph.add_input(name + ".g", {DType::kF32, {8}})};
  }
  append_optimizer(graph, gradients, {.adamw = {}, .clips = !early, .updates_early = early, .decays = {}});
  return graph;
}

std::vector<std::string> updates_of(const Graph& graph, JoiningBackend& backend) {
  PreparedGraph prepared = prepare(graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  std::vector<Program> programs;
  programs.emplace_back(std::move(prepared), plan, *memory);
  programs.reserve(10);  // moves it
  programs.front().run();
  std::erase_if(backend.ran, [](const std::string& name) { return name.find(".update") == std::string::npos; });
  return backend.ran;
}

using Names = std::vector<std::string>;

TEST(JoinedUpdates, AreThoseThatFollowOneAnother) {
  JoiningBackend backend(true);
  EXPECT_EQ(updates_of(three_updates(false), backend), Names{"a.update+b.update+c.update"});
}

TEST(JoinedUpdates, AreNoneThatNodesStandBetween) {
  JoiningBackend backend(true);
  EXPECT_EQ(updates_of(three_updates(true), backend), (Names{"a.update", "b.update", "c.update"}));
}

// Scratch lies in the same place for each, but joined calls use only that of the last.
TEST(JoinedUpdates, MayShareTheirScratch) {
  JoiningBackend backend(true);
  backend.scratch_bytes = 64;
  EXPECT_EQ(updates_of(three_updates(false), backend), Names{"a.update+b.update+c.update"});
}

// Four maps of x, the last of another width. `spoil` may change the plan.
std::vector<std::string> maps_of(JoiningBackend& backend, const std::function<void(MemoryPlan&)>& spoil = {}) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {6, 16}});
  for (const std::string name : {"a", "b", "c", "d"}) {
    const ValueId weight = graph.add_parameter(name + ".weight", {DType::kF32, {name == "d" ? 8 : 16, 16}});
    graph.mark_output(linear(graph, name, x, weight, kNoValue, kNoValue));
  }
  PreparedGraph prepared = prepare(graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  if (spoil) spoil(plan);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  Program(std::move(prepared), plan, *memory).run();
  return backend.ran;
}

TEST(JoinedProducts, AreThoseOfOneType) {
  JoiningBackend backend(true);
  EXPECT_EQ(maps_of(backend), (Names{"a+b+c", "d"}));
}

TEST(JoinedProducts, AreFewerWhereTheBackendJoinsFewer) {
  JoiningBackend backend(true);
  backend.most_joined = 2;
  EXPECT_EQ(maps_of(backend), (Names{"a+b", "c", "d"}));
  backend.ran.clear();
  backend.most_joined = 1;
  EXPECT_EQ(maps_of(backend), (Names{"a", "b", "c", "d"}));
}

// The last one's scratch is used while the others write: a plan may have put it over what they made or read.
TEST(JoinedProducts, AreNoneWhoseTensorsLieInTheScratch) {
  JoiningBackend backend(true);
  backend.scratch_bytes = 64;
  EXPECT_EQ(maps_of(backend), (Names{"a+b+c", "d"}));
  backend.ran.clear();
  const auto over_a = [](MemoryPlan& plan) { plan.scratch_offsets[2] = plan.value_offsets[2]; };  // x, a's weight, a
  EXPECT_EQ(maps_of(backend, over_a), (Names{"a+b", "c", "d"}));
}

// A plan may put what one makes over what another has read for the last time.
TEST(JoinedProducts, AreNoneThatWriteOverWhatOthersRead) {
  JoiningBackend backend(true);
  const auto over_weight = [](MemoryPlan& plan) {
    plan.value_offsets[4] = plan.value_offsets[1];
  };  // b over a's weight
  EXPECT_EQ(maps_of(backend, over_weight), (Names{"a", "b+c", "d"}));
}

TEST(JoinedUpdates, AreNoneWhereKernelsAreStartedOneByOne) {
  JoiningBackend backend(false);
  EXPECT_EQ(updates_of(three_updates(false), backend), (Names{"a.update", "b.update", "c.update"}));
}

}  // namespace
}  // namespace plimsoll::test
