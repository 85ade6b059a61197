// Tests that what forks may run at any time until its join: as soon as it can, or as late.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "backend/reference/reference_backend.h"
#include "runtime/program.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

struct Counts {
  int forked = 0, late = 0;  // late: nodes that others ran before, though they began first
};

// Runs what forks when it is joined.
class LateRecorder final : public Recorder {
 public:
  explicit LateRecorder(Counts& counts) : counts_(counts) {}
  void run(std::int64_t, const std::function<void()>& start) override {
    start();
    EXPECT_TRUE(waiting_.empty()) << "each is joined";
  }
  void fork(std::size_t node, const std::function<void(std::size_t)>& run) override {
    ++counts_.forked;
    waiting_[node] = &run;
  }
  void join(std::size_t node) override {
    // As on a stream: those that have forked before it have ended, too.
    while (!waiting_.empty() && waiting_.begin()->first <= node) {
      ++counts_.late;
      (*waiting_.begin()->second)(waiting_.begin()->first);
      waiting_.erase(waiting_.begin());
    }
  }
  double device_seconds() override { return 0; }

 private:
  Counts& counts_;
  std::map<std::size_t, const std::function<void(std::size_t)>*> waiting_;
};

class LateBackend final : public Backend {
 public:
  std::string_view name() const override { return "late"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override { return near_.prepare(graph, node); }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return near_.allocate(bytes); }
  std::unique_ptr<Recorder> make_recorder() override { return std::make_unique<LateRecorder>(counts); }

  Counts counts;

 private:
  ReferenceBackend near_;
};

Graph forking_update() {
  SmallNet net;
  append_optimizer(net.graph, net.gradients, {.adamw = {.weight_decay = 0.1}, .decays = {}});
  return net.graph;
}

// Returns every parameter after three updates.
Data trained(std::size_t forks, Backend& backend) {
  PreparedGraph prepared = prepare(forking_update(), backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout, forks);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  const Program program(std::move(prepared), plan, *memory);
  const auto set = [&](const Data& data) {
    for (const auto& [name, values] : data) from_doubles(program.source(name).view(), values);
  };
  const Data weights = SmallNet().weights();
  set(weights);
  for (int step = 1; step <= 3; ++step) {
    set(SmallNet::batch(step));
    set({{"learning_rate", {0.05}}, {"step", {static_cast<double>(step)}}, {"max_grad_norm", {1}}});
    program.run();
  }
  Data found;
  for (const auto& [name, values] : weights) {
    const TensorView view = program.source(name).view();
    found[name] = to_doubles(view, view.shape().rank() == 0 ? 1 : view.shape()[0]);
    EXPECT_NE(found[name], values) << name;
  }
  return found;
}

TEST(Forks, ResultsAreTheSameWheneverTheyRun) {
  ReferenceBackend in_turn;
  LateBackend late;
  EXPECT_EQ(trained(2, late), trained(0, in_turn));
  EXPECT_GT(late.counts.forked, 0);
  EXPECT_EQ(late.counts.late, late.counts.forked);
}

TEST(Forks, AreNoneWithoutAPlanOfThem) {
  LateBackend late;
  trained(0, late);
  EXPECT_EQ(late.counts.forked, 0);
}

}  // namespace
}  // namespace plimsoll::test
