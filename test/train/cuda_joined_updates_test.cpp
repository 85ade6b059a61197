// Joins the updates of many parameters in few kernels: the bits are the same, with as many fewer launches as expected.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "base/philox.h"
#include "cuda_emulator.h"
#include "runtime/program.h"
#include "tensor/split_float.h"
#include "transform/optimizer.h"

namespace plimsoll::test {
namespace {

// Sizes around those of a warp and of a block of codes, in more parameters than one launch covers; some in halves, one
// by rows.
struct Parameters {
  explicit Parameters(OptimizerKind kind) {
    Gradients gradients;
    for (int i = 0; i < 50; ++i) {
      const std::int64_t elements = std::vector<std::int64_t>{1, 31, 255, 256, 257, 4096, 5000}[i % 7] + i / 7;
      const std::string name = "p" + std::to_string(i) + (i % 3 == 0 ? ".bias" : ".weight");
      const ValueId parameter = graph.add_parameter(name, {i % 2 == 0 ? DType::kF32 : DType::kBF16, {elements}});
      gradients[parameter] = {.dense = graph.add_input(name + ".g", {DType::kF32, {elements}})};
    }
    const ValueId table = graph.add_parameter("table", {DType::kF32, {300, 20}});
    gradients[table] = {.row_ids = graph.add_input("ids", {DType::kI32, {4}}),
                        .row_count = graph.add_input("count", {DType::kI32, {1}}),
                        .rows = graph.add_input("rows", {DType::kF32, {4, 20}})};
    append_optimizer(graph, gradients, {.kind = kind, .adamw = {.weight_decay = 0.1}, .decays = {}});
  }
  Graph graph;
};

using Bytes = std::map<std::string, std::vector<std::byte>>;

struct Outcome {
  Bytes persistent;
  int starts = 0;  // kernel launches in the last of three updates
};

Outcome update(const Graph& graph, bool one_by_one) {
  CudaBackend backend;
  if (one_by_one) backend.start_one_by_one();
  PreparedGraph prepared = prepare(graph, backend);
  PersistentLayout layout;
  layout.add(prepared.graph);
  const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(plan.arena_bytes());
  const Program program(std::move(prepared), plan, *memory);
  Outcome outcome;
  for (std::int32_t step = 1; step <= 3; ++step) {
    std::uint32_t key = 0;
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      const Value& value = program.graph().values()[v];
      if (value.producer != kNoNode || (value.role == Role::kState && step > 1)) continue;
      const DeviceTensor tensor = program.tensor(static_cast<ValueId>(v));
      if (value.role == Role::kState) {
        tensor.fill_zeros();
      } else if (value.role == Role::kInput || step == 1) {
        std::vector<float> numbers(static_cast<std::size_t>(value.type.shape.elements()));
        for (float& number : numbers) {
          number =
              static_cast<float>(philox4x32({++key, static_cast<std::uint32_t>(step), 0, 0}, {7, 8})[0] % 2001) / 1e3F -
              1;
        }
        if (value.type.dtype == DType::kF32) tensor.write(std::as_bytes(std::span(numbers)));
        if (value.type.dtype == DType::kBF16) {
          std::vector<std::uint16_t> halves;
          for (const float number : numbers) halves.push_back(split_float(number).high);
          tensor.write(std::as_bytes(std::span(halves)));
        }
      }
    }
    const std::int32_t ids[4] = {2, 3, 150, 0};
    program.source("ids").write(std::as_bytes(std::span(ids)));
    program.source("count").set(std::int32_t{3});
    program.source(kStepInput).set(step);
    program.source(kLearningRateInput).set(0.01F);
    program.source(kMaxGradNormInput).set(1.0F);
    backend.wait();
    cuda_emulator::kernel_runs() = 0;
    program.run();
    backend.wait();
    outcome.starts = cuda_emulator::kernel_runs();
  }
  for (const Value& value : program.graph().values()) {
    if (value.producer != kNoNode || value.role == Role::kInput) continue;
    const DeviceTensor tensor = program.source(value.name);
    std::vector<std::byte>& bytes = outcome.persistent[value.name];
    bytes.resize(tensor.bytes());
    tensor.read(bytes);
  }
  return outcome;
}

TEST(CudaJoinedUpdates, AreTheSameBitsInFewerStarts) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kAdafactor}) {
    SCOPED_TRACE(optimizer_name(kind));
    const Parameters parameters(kind);
    for (const bool reversed : {false, true}) {
      cuda_emulator::reverse_threads(reversed);
      const Outcome joined = update(parameters.graph, false), single = update(parameters.graph, true);
      cuda_emulator::reverse_threads(false);
      EXPECT_TRUE(joined.persistent == single.persistent);
      // 51 updates take four launches: 50 whole tensors three (with coded moments two and one), and one by rows.
      EXPECT_EQ(single.starts - joined.starts, kind == OptimizerKind::kAdafactor ? 0 : 51 - 4);
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
