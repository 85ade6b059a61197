// Tests which nodes a program asks a backend to run as one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/reference/reference_backend.h"
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
    return std::make_unique<NotingKernel>(node, scratch_bytes, ran);
  }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return near_.allocate(bytes); }
  std::unique_ptr<Recorder> make_recorder() override { return records_ ? std::make_unique<PlainRecorder>() : nullptr; }

  std::size_t scratch_bytes = 0;  // that of updates
  std::vector<std::string> ran;

 private:
  struct NotingKernel final : Kernel {
    NotingKernel(const Node& node, std::size_t bytes, std::vector<std::string>& to)
        : name(node.name), scratch(is_update(node) ? bytes : 0), ran(to) {}
    static bool is_update(const Node& node) { return node.op == Op::kAdamW || node.op == Op::kAdamWRows; }
    std::size_t scratch_bytes() const override { return scratch; }
    void run(const KernelArguments&) const override { ran.push_back(name); }
    std::function<void()> join(std::span<const KernelCall> calls) const override {
      std::string all;
      for (const KernelCall& call : calls)
        all += (all.empty() ? "" : "+") + static_cast<const NotingKernel*>(call.kernel)->name;
      return [all, this] { ran.push_back(all); };
    }
    std::string name;
    std::size_t scratch;
    std::vector<std::string>& ran;
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

TEST(JoinedUpdates, AreNoneThatWriteTheSameBytes) {
  JoiningBackend backend(true);
  backend.scratch_bytes = 64;  // it lies in the same place for each
  EXPECT_EQ(updates_of(three_updates(false), backend), (Names{"a.update", "b.update", "c.update"}));
}

TEST(JoinedUpdates, AreNoneWhereKernelsAreStartedOneByOne) {
  JoiningBackend backend(false);
  EXPECT_EQ(updates_of(three_updates(false), backend), (Names{"a.update", "b.update", "c.update"}));
}

}  // namespace
}  // namespace plimsoll::test
