// Runs a step with products that overlap others, on the emulated GPU: started, recorded, and started from the record.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backend/cuda/cuda_backend.h"
#include "runtime/program.h"
#include "support/small_net.h"

namespace plimsoll::test {
namespace {

// The parameters after each of four updates.
std::vector<Data> updated(std::size_t forks, bool one_by_one) {
  SmallNet net;
  append_optimizer(net.graph, net.gradients, {.adamw = {.weight_decay = 0.1}, .decays = {}});
  CudaBackend backend;
  if (one_by_one) backend.start_one_by_one();
  PreparedGraph prepared = prepare(net.graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout, forks);
  EXPECT_EQ(std::ranges::any_of(plan.joins, [](NodeId join) { return join != kNoNode; }), forks > 0);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  const Program program(std::move(prepared), plan, *memory);
  const auto set = [&](const Data& data) {
    for (const auto& [name, values] : data) from_doubles(program.source(name), values);
  };
  const Data weights = net.weights();
  set(weights);
  std::vector<Data> all;
  for (int step = 1; step <= 4; ++step) {
    set(SmallNet::batch(step));
    set({{"learning_rate", {0.05}}, {"step", {static_cast<double>(step)}}, {"max_grad_norm", {1}}});
    program.run();
    Data& now = all.emplace_back();
    for (const auto& [name, before] : weights) {
      const DeviceTensor tensor = program.source(name);
      now[name] = to_doubles(tensor, tensor.view().shape().rank() == 0 ? 1 : tensor.view().shape()[0]);
    }
  }
  return all;
}

TEST(CudaForks, GiveTheSameBitsStartedAndRecorded) {
  const std::vector<Data> in_turn = updated(0, true);
  EXPECT_NE(in_turn.front(), in_turn.back());
  for (const std::size_t forks : {1, 2, 8}) {
    EXPECT_EQ(updated(forks, false), in_turn) << forks;
    EXPECT_EQ(updated(forks, true), in_turn) << forks;
  }
}

}  // namespace
}  // namespace plimsoll::test
