// Tests what a real device adds to the emulator's tests: its memory, dropout's masks equal to the host's, cuBLASLt
// itself with its stored choices, bounds of rows, a small net from end to end, and recorded steps. test_backend runs
// the same tests on the emulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <optional>

#include "backend/compare.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/dropout_masks.h"
#include "backend/reference/reference_backend.h"
#include "backend/transfers.h"
#include "base/dropout.h"
#include "runtime/program.h"
#include "support/expect_error.h"
#include "support/small_net.h"
#include "tensor/half.h"

namespace plimsoll::test {
namespace {

TEST(GpuMemory, HoldsWhatIsWrittenAndZerosBefore) {
  CudaBackend backend;
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(1000);
  EXPECT_FALSE(memory->is_host());
  std::vector<std::byte> found(1000, std::byte{1}), written(500, std::byte{7});
  memory->read(memory->bytes().data(), found);
  EXPECT_EQ(found, std::vector<std::byte>(1000));
  memory->write(written, memory->bytes().data() + 250);
  memory->fill_zeros(memory->bytes().subspan(700));
  memory->read(memory->bytes().data(), found);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], std::byte(i >= 250 && i < 700 ? 7 : 0)) << i;
}

TEST(GpuMemory, IsRefusedBeyondTheDevices) {
  CudaBackend backend;
  expect_error<EnvironmentError>([&] { backend.allocate(std::size_t{1} << 50); },
                                 {"less free memory", "1048576 GiB to allocate"});
  // A refused allocation must not count as an error of later kernels.
  ReferenceBackend reference;
  EXPECT_EQ(hidden_mask(backend, DType::kF32, {{0, 0}}, 8, {.p = 0.5}),
            hidden_mask(reference, DType::kF32, {{0, 0}}, 8, {.p = 0.5}));
}

Keys keys_of(const std::vector<std::int32_t>& lengths) {
  Keys keys;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    for (std::int32_t i = 0; i < lengths[sample]; ++i) {
      const bool visual = i >= lengths[sample] / 2;
      keys.push_back({static_cast<std::int32_t>(3 * sample), visual ? kVisualCoordinate + i : i});
    }
  }
  return keys;
}

// GELU and its derivative of every finite half are almost as accurate as rounding them once. Results below the normal
// halves may be flushed to zero.
TEST(GpuGelu, IsRightForEveryHalf) {
  std::vector<double> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00) != 0x7C00) values.push_back(half_to_float(static_cast<std::uint16_t>(bits)));
  }
  const Shape shape{static_cast<std::int64_t>(values.size()) / 64, 64};
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF16, shape}), dy = graph.add_input("dy", {DType::kF16, shape});
  graph.add_node({.op = Op::kGelu, .name = "gelu", .inputs = {x}});
  graph.add_node({.op = Op::kGeluGrad, .name = "gelu_grad", .attributes = GeluAttributes{}, .inputs = {dy, x}});
  CudaBackend cuda;
  GraphRunner runner(graph, cuda);
  runner.set(x, values);
  runner.set(dy, std::vector<double>(values.size(), 1.0));
  runner.run();
  const std::vector<double> gelu = runner.made("gelu"), gelu_grad = runner.made("gelu_grad");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double z = values[i], cdf = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    const double slope = cdf + z * std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    const auto allowed = [](double exact) { return std::max(std::abs(exact), 0x1p-14) * (0x1p-11 + 2e-5); };
    ASSERT_NEAR(gelu[i], z * cdf, allowed(z * cdf)) << z;
    // Where cdf and density cancel, the rounding of either counts.
    ASSERT_NEAR(gelu_grad[i], slope, allowed(slope) + 1e-5 * cdf) << z;
  }
}

// All machines draw the same masks, to the last element.
TEST(GpuDropout, MasksAreTheHosts) {
  CudaBackend cuda;
  ReferenceBackend reference;
  const std::vector<std::int32_t> lengths = {64, 17, 1, 0, 40};
  const Keys keys = keys_of(lengths);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const double p : {0.1, 0.5}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", p " + std::to_string(p));
      const DropoutAttributes attributes{.p = p, .site = 7};
      EXPECT_EQ(hidden_mask(cuda, dtype, keys, 101, attributes), hidden_mask(reference, dtype, keys, 101, attributes));

      const auto kept = [&](Backend& backend) {
        std::vector<double> mask = attention_mask(backend, dtype, keys, lengths, p, 64);
        for (double& value : mask) value = value != 0 ? 1 : 0;
        return mask;
      };
      const std::vector<double> expected = kept(reference);
      EXPECT_EQ(kept(cuda), expected);
      EXPECT_GT(std::ranges::count(expected, 1.0), 1000);
    }
  }
}

// Compares the backend's results in each way of running with those of the reference, which is computed once: it is
// what takes long.
void expect_near_reference(const BuiltCase& built, CudaBackend& backend,
                           std::initializer_list<RunnerOptions> ways = {RunnerOptions{}}) {
  ReferenceBackend reference;
  GraphRunner expected(built.graph, reference);
  built.set_data(expected);
  expected.run();
  for (const RunnerOptions& options : ways) {
    GraphRunner found(built.graph, backend, options);
    built.set_data(found);
    found.run();
    expect_near(built.graph, found, expected);
  }
}

// The host only knows an upper bound of the rows.
// Each type is a test of its own, because these take longest and run concurrently (bench/gpu_check.py).
class OfType : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Gpu, OfType, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

TEST_P(OfType, RowsAreRightWhateverTheHostKnowsOfThem) {
  CudaBackend backend;
  for (const OpCase& op_case : half_cases()) {
    SCOPED_TRACE(op_case.name);
    const BuiltCase built = op_case.build(GetParam(), true);
    expect_near_reference(built, backend,
                          {{.reuse = Reuse::kFirst, .bound_slack = 0}, {.reuse = Reuse::kFirst, .bound_slack = 3}});
  }
}

TEST_P(OfType, ProductsAreRightByTheirOwnKernelToo) {
  for (const OpCase& op_case : linear_cases()) {
    SCOPED_TRACE(op_case.name);
    const BuiltCase built = op_case.build(GetParam(), true);
    CudaBackend backend;
    const GraphRunner prepares(built.graph, backend);
    backend.tune(*backend.allocate(0));
    Choices choices = backend.choices();
    for (auto& [name, choice] : choices.algorithms) choice = "own kernel";
    backend.use_choices(choices, "a test");
    expect_near_reference(built, backend);
    EXPECT_EQ(backend.choices(), choices);
  }
}

// y = x weight^T over 900 of 1,000 rows.
BuiltCase large_product(DType dtype) {
  return OpCase{"linear/large",
                [](CaseBuilder& b) {
                  const ValueId x = b.tensor("x", {1000, 96}, 900);
                  b.objective(linear(b.graph, "y", x, b.tensor("weight", {128, 96}), kNoValue, b.rows(900)));
                }}
      .build(dtype, true);
}

TEST(GpuProducts, AreRightAfterTuningAndRepeatWithStoredChoices) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const BuiltCase built = large_product(dtype);
    CudaBackend tuned, again;
    const GraphRunner prepares(built.graph, tuned);
    EXPECT_GT(tuned.tune(*tuned.allocate(std::size_t{64} << 20)), 0U);
    expect_near_reference(built, tuned, {{.bound_slack = 0}});
    EXPECT_TRUE(again.use_choices(tuned.choices(), "a test"));
    GraphRunner first(built.graph, tuned, {.bound_slack = 0}), second(built.graph, again, {.bound_slack = 0});
    for (GraphRunner* runner : {&first, &second}) {
      built.set_data(*runner);
      runner->run();
    }
    expect_identical(built.graph, second, first);
  }
}

TEST(GpuStep, GradientsOfASmallNetAreNearTheReference) {
  const SmallNet net;
  CudaBackend cuda;
  ReferenceBackend reference;
  GraphRunner found(net.graph, cuda), expected(net.graph, reference);
  for (GraphRunner* runner : {&found, &expected}) {
    set_all(*runner, SmallNet::batch(0));
    set_all(*runner, net.weights());
    runner->run();
  }
  // Errors accumulate from node to node, so the tolerance is for the whole net.
  for (const Node& node : net.graph.nodes()) {
    for (const ValueId output : node.outputs) {
      const double used = used_tolerance(found.made(output), expected.made(output), {1e-4, 1e-4, "a chain of ops"});
      EXPECT_LE(used, 1) << node.name;
    }
  }
}

// A program in the device's memory, which begins as zeros.
struct OnDevice {
  // `forks`: products that overlap others, at once.
  OnDevice(const Graph& graph, CudaBackend& backend, std::size_t forks = 0) {
    PreparedGraph prepared = prepare(graph, backend);
    PersistentLayout layout;
    layout.add(prepared.graph);
    MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout, forks);
    memory = backend.allocate(plan.arena_bytes());
    program.emplace(std::move(prepared), std::move(plan), *memory);
  }
  void set(const Data& data) const {
    for (const auto& [name, values] : data) from_doubles(program->source(name), values);
  }
  std::vector<double> get(std::string_view name) const {
    const DeviceTensor tensor = program->source(name);
    return to_doubles(tensor, tensor.view().shape().rank() == 0 ? 1 : tensor.view().shape()[0]);
  }

  std::unique_ptr<DeviceMemory> memory;
  std::optional<Program> program;
};

// Runs complete updates: launched, recorded, and launched from the record.
TEST(GpuStep, IsTheSameRecordedAsStarted) {
  SmallNet net;
  append_optimizer(net.graph, net.gradients, {.adamw = {.weight_decay = 0.1}, .decays = {}});
  CudaBackend recording, forking, starting;
  starting.start_one_by_one();
  const OnDevice recorded(net.graph, recording), forked(net.graph, forking, 2), started(net.graph, starting);
  for (const OnDevice* each : {&recorded, &forked, &started}) each->set(net.weights());
  for (int step = 1; step <= 4; ++step) {
    for (const OnDevice* each : {&recorded, &forked, &started}) {
      each->set(SmallNet::batch(step));
      each->set({{"learning_rate", {0.05}}, {"step", {static_cast<double>(step)}}, {"max_grad_norm", {1}}});
      each->program->run();
    }
    for (const auto& [name, before] : net.weights()) {
      EXPECT_EQ(recorded.get(name), started.get(name)) << name << ", step " << step;
      EXPECT_EQ(forked.get(name), started.get(name)) << name << ", step " << step << ", beside others";
      EXPECT_NE(recorded.get(name), before) << name << ", step " << step;
    }
  }
}

// Tensors go out of the device's memory and back, on a separate stream; the second time this is recorded.
TEST(GpuStore, GivesBackWhatItTookRecordedOrNot) {
  constexpr std::size_t kBytes = 3 << 20;
  CudaBackend backend;
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(2 * kBytes);
  const std::unique_ptr<OffloadStore> store = backend.make_offload_store(kBytes, 2);
  const std::unique_ptr<Recorder> recorder = backend.make_recorder();
  const std::span<std::byte> from = memory->bytes().first(kBytes), to = memory->bytes().last(kBytes);
  for (int run = 1; run <= 4; ++run) {
    const std::vector<std::byte> written(kBytes, std::byte(run));
    memory->write(written, from.data());
    recorder->run(1, [&] {
      store->begin({.ticket = 0, .offset = 0, .bytes = from, .writes = true, .label = "a store"});
      store->wait(0);
      store->begin({.ticket = 1, .offset = 0, .bytes = to, .writes = false, .label = "a fetch"});
      store->wait(1);
    });
    std::vector<std::byte> found(kBytes);
    memory->read(to.data(), found);
    EXPECT_EQ(found, written) << run;
  }
}

}  // namespace
}  // namespace plimsoll::test
