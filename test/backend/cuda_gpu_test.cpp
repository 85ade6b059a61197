// Tests the checks that the CUDA backend makes on the GPU and its driver before it runs, on emulated machines.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gpu.h"
#include "backend/op_case.h"
#include "backend/transfers.h"
#include "base/bytes.h"
#include "cuda_emulator.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using cuda_emulator::machine;

constexpr std::size_t kContextBytes = 512 * kMiB;
constexpr unsigned int kOther = 1;  // the system's first process

// NVML for a GPU on which process 1 initially held `machine().used_bytes`; the backend's context takes kContextBytes
// once the device is current.
std::size_t others_bytes = 0;
bool knows_processes = false;

NvmlFunctions nvml_functions() {
  static char device = 0;
  NvmlFunctions f;
  f.init = [] { return 0; };
  f.by_bus_id = [](const char* bus_id, NvmlDevice* found) {
    return std::strcmp(bus_id, "0000:0A:00.0") == 0 ? (*found = &device, 0) : 1;
  };
  f.memory = [](NvmlDevice, NvmlMemory* memory) {
    const std::size_t used = machine().used_bytes + cuda_emulator::allocated_bytes();
    *memory = {.total = machine().total_bytes, .free = machine().total_bytes - used, .used = used};
    return 0;
  };
  f.processes = [](NvmlDevice, unsigned int* count, NvmlProcess* processes) {
    const std::size_t own = machine().used_bytes - others_bytes + cuda_emulator::allocated_bytes();
    processes[0] = {.process_id = kOther, .used_bytes = others_bytes};
    processes[1] = {.process_id = static_cast<unsigned int>(::getpid()), .used_bytes = own};
    *count = knows_processes ? 2 : 1;
    return 0;
  };
  return f;
}

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override { machine() = {}; }
  void TearDown() override { machine() = {}; }

  // Makes another process hold a part of the GPU.
  static void share(std::size_t bytes) {
    others_bytes = machine().used_bytes = bytes;
    machine().nvml = nvml_functions();
    knows_processes = false;
  }
};

TEST_F(CudaGpu, NeedsADriver) {
  machine().driver_version = 0;
  expect_error<NoDeviceError>([] { CudaBackend backend; },
                              {"no NVIDIA driver", "CUDA 13", "--gpus all", "plimsoll doctor"});
}

TEST_F(CudaGpu, NeedsADriverOfItsGeneration) {
  machine().driver_version = 12080;
  expect_error<EnvironmentError>([] { CudaBackend backend; },
                                 {"older than this program", "CUDA 12.8", "CUDA 13.0", "update the driver"});
  machine().runtime_version = 12090;  // a newer version of the same generation
  EXPECT_NO_THROW(CudaBackend());
}

TEST_F(CudaGpu, NeedsAGpu) {
  machine().devices = 0;
  expect_error<NoDeviceError>([] { CudaBackend backend; }, {"shows no GPU", "CUDA_VISIBLE_DEVICES"});
}

TEST_F(CudaGpu, NeedsTheGpuThatIsNamed) {
  expect_error<EnvironmentError>([] { CudaBackend backend(1); }, {"no such GPU", "cuda:1", "1 GPU", "cuda:0"});
  machine().devices = 3;
  expect_error<EnvironmentError>([] { CudaBackend backend(3); }, {"3 GPUs", "cuda:0 to cuda:2"});
  // Another GPU is there: `plan` does not assume one.
  try {
    CudaBackend backend(3);
  } catch (const NoDeviceError& error) {
    ADD_FAILURE() << error.what();
  } catch (const EnvironmentError&) {
  }
  EXPECT_NO_THROW(CudaBackend(2));
  EXPECT_EQ(machine().current, 2);
}

TEST_F(CudaGpu, NeedsKernelsForTheGpu) {  // the emulated build holds 75-real, 80-real and 90
  for (const int capability : {75, 80, 89, 90}) {
    machine().capability = capability;
    EXPECT_EQ(CudaBackend().gpu().architecture(), capability);
  }
  machine().capability = 70;
  expect_error<EnvironmentError>([] { CudaBackend backend; },
                                 {"no kernels", "an emulated GPU, compute capability 7.0", "75, 80, 90, and PTX",
                                  "PLIMSOLL_CUDA_ARCHITECTURES=70"});
  machine().capability = 120;  // needs PTX, which a driver older than the compiler cannot read
  EXPECT_NO_THROW(CudaBackend());
  machine().runtime_version = 13010;
  expect_error<EnvironmentError>([] { CudaBackend backend; },
                                 {"compute capability 12.0", "PLIMSOLL_CUDA_ARCHITECTURES=120", "update the driver"});
}

TEST_F(CudaGpu, SaysWhatItIsInALine) {
  machine().driver_version = 13010;
  EXPECT_EQ(
      CudaBackend().gpu().summary(),
      "an emulated GPU, compute capability 9.0, driver for CUDA 13.1, built with CUDA 13.0, 79.0 GiB free of 80.0 "
      "GiB");
}

TEST_F(CudaGpu, LoadsItsKernelsAtOnceUnlessToldOtherwise) {
  ::unsetenv("CUDA_MODULE_LOADING");
  CudaBackend();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  CudaBackend();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  ::unsetenv("CUDA_MODULE_LOADING");
}

TEST_F(CudaGpu, HoldsWhatItDidNotAllocateToo) {
  CudaBackend backend;  // no NVML: all used memory counts
  EXPECT_EQ(backend.reserved_bytes(), machine().used_bytes);
  {
    const std::unique_ptr<DeviceMemory> memory = backend.allocate(3 * kMiB);
    EXPECT_EQ(backend.reserved_bytes(), machine().used_bytes);
    const std::size_t bytes = 3 * kMiB + backend.buffer_bytes(3 * kMiB).device;
    EXPECT_EQ(backend.device_use()->held_bytes, machine().used_bytes + bytes);
    EXPECT_EQ(backend.device_use()->free_bytes, machine().total_bytes - machine().used_bytes - bytes);
  }
  EXPECT_EQ(backend.device_use()->held_bytes, machine().used_bytes);
}

TEST_F(CudaGpu, CountsWhatOthersHoldAsTheirs) {
  for (const bool knows : {false, true}) {
    share(10 * kGiB);
    knows_processes = knows;
    CudaBackend backend;
    machine().used_bytes += kContextBytes;
    EXPECT_EQ(backend.reserved_bytes(), kContextBytes) << knows;
    const std::unique_ptr<DeviceMemory> memory = backend.allocate(5 * kMiB);
    EXPECT_EQ(backend.reserved_bytes(), kContextBytes) << knows;
    EXPECT_EQ(backend.device_use()->held_bytes, kContextBytes + 5 * kMiB + backend.buffer_bytes(5 * kMiB).device)
        << knows;
  }
  // If NVML knows the process, memory that another process takes meanwhile is told apart.
  share(10 * kGiB);
  knows_processes = true;
  CudaBackend backend;
  machine().used_bytes += kContextBytes;
  machine().used_bytes += kGiB;
  others_bytes += kGiB;
  EXPECT_EQ(backend.reserved_bytes(), kContextBytes);
}

TEST_F(CudaGpu, DoesNotTakeAWholeGpusUseForItsPart) {  // MIG: NVML reports 80 GiB, the runtime 20
  share(60 * kGiB);
  NvmlFunctions whole = nvml_functions();
  whole.memory = [](NvmlDevice, NvmlMemory* memory) {
    *memory = {.total = 80 * kGiB, .free = 20 * kGiB, .used = 60 * kGiB};
    return 0;
  };
  machine().nvml = whole;
  machine().total_bytes = 20 * kGiB;
  machine().used_bytes = kContextBytes;
  CudaBackend backend;
  EXPECT_EQ(backend.reserved_bytes(), kContextBytes);
}

// Only NVML's total includes the memory that the driver keeps for itself.
TEST_F(CudaGpu, DoesNotTakeWhatTheDriverKeepsForOthersUse) {
  share(10 * kGiB);
  NvmlFunctions keeps = nvml_functions();
  keeps.memory = [](NvmlDevice, NvmlMemory* memory) {
    const std::size_t kept = 600 * kMiB, total = machine().total_bytes + kept;
    const std::size_t used = machine().used_bytes + cuda_emulator::allocated_bytes() + kept;
    *memory = {.total = total, .free = total - used, .used = used};
    return 0;
  };
  machine().nvml = keeps;
  CudaBackend backend;
  machine().used_bytes += kContextBytes;
  EXPECT_EQ(backend.reserved_bytes(), kContextBytes);
}

// Attention with bias tables as published, except for the distance from which boxes count as far away.
BuiltCase attention_of(DType dtype, std::int64_t head_size, std::int64_t max_spatial_distance = 256,
                       std::int64_t spatial_bins = 64) {
  return OpCase{
      "attention/published",
      [=](CaseBuilder& b) {
        const std::int64_t heads = 2;
        const Shape shape{4, heads * head_size};
        const auto table = [&](const char* name, std::int64_t bins) { return b.wide_tensor(name, {heads, bins}); };
        const std::vector<std::int32_t> zeros(12, 0), ones(4, 1);
        const ValueId q = b.tensor("q", shape), k = b.tensor("k", shape), v = b.tensor("v", shape);
        const AttentionContext context{.sample_offsets = b.integers("sample_offsets", {2}, {0, 4}),
                                       .key_mask = b.integers("key_mask", {4}, ones),
                                       .row_keys = b.integers("row_keys", {4, 2}, {0, 0, 0, 1, 0, 2, 0, 3}),
                                       .dropout_key = b.integers("dropout_key", {2}, {1, 2}),
                                       .relative_coordinates = b.integers("relative_coordinates", {4, 3}, zeros),
                                       .position_table = table("position_table", 32),
                                       .x_table = table("x_table", spatial_bins),
                                       .y_table = table("y_table", spatial_bins)};
        const AttentionAttributes attributes{.heads = heads,
                                             .dropout_p = 0.1,
                                             .max_position_distance = 128,
                                             .max_spatial_distance = max_spatial_distance};
        b.objective(attention(b.graph, "attention", q, k, v, context, attributes, b.rows(4)));
      }}
      .build(dtype, true);
}

TEST_F(CudaGpu, HasSharedMemoryForAttention) {
  for (const int capability : {75, 80, 86, 89, 90}) {
    machine().capability = capability;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const std::int64_t head_size : {32, 64, 128}) {
        if (capability == 75 && head_size == 128) continue;  // no published model has this
        SCOPED_TRACE(testing::Message() << capability << ", " << dtype_name(dtype) << ", " << head_size);
        CudaBackend backend;
        EXPECT_NO_THROW(GraphRunner(attention_of(dtype, head_size).graph, backend));
      }
    }
  }
  machine().capability = 86;
  CudaBackend backend;
  const BuiltCase near = attention_of(DType::kBF16, 64), far = attention_of(DType::kBF16, 64, 30000);
  expect_error<EnvironmentError>([&] { GraphRunner(far.graph, backend); },
                                 {"attention needs more shared memory", "an emulated GPU, compute capability 8.6",
                                  "99.0 KiB or less", "max_rel_2d_pos"});
  const BuiltCase fine = attention_of(DType::kBF16, 64, 1000, 300);
  expect_error<EnvironmentError>([&] { GraphRunner(fine.graph, backend); },
                                 {"attention", "300", "at most 256", "rel_2d_pos_bins"});
  // A model that needs less takes nothing from one that was prepared before.
  GraphRunner first(near.graph, backend), second(attention_of(DType::kBF16, 64, 16).graph, backend);
  near.set_data(first);
  EXPECT_NO_THROW(first.run());
}

// A recorded step's copies are on the stream of its kernels.
TEST_F(CudaGpu, FinishesARecordedStepBeforeItsStoreGoes) {
  constexpr std::size_t kBytes = 256;
  cuda_emulator::set_lazy(true);
  CudaBackend backend;
  const std::unique_ptr<DeviceMemory> memory = backend.allocate(2 * kBytes);
  std::unique_ptr<OffloadStore> store = backend.make_offload_store(kBytes, 2);
  const std::unique_ptr<Recorder> recorder = backend.make_recorder();
  const std::span<std::byte> from = memory->bytes().first(kBytes), to = memory->bytes().last(kBytes);
  for (const int value : {1, 2}) {
    memory->write(std::vector<std::byte>(kBytes, std::byte(value)), from.data());
    recorder->run(1, [&] {
      store->begin({.ticket = 0, .offset = 0, .bytes = from, .writes = true, .label = "a store"});
      store->wait(0);
      store->begin({.ticket = 1, .offset = 0, .bytes = to, .writes = false, .label = "a fetch"});
      store->wait(1);
    });
  }
  store.reset();
  EXPECT_EQ(to.front(), std::byte{2});
  cuda_emulator::set_lazy(false);
}

TEST_F(CudaGpu, RefusesWhatIsNotFreeAndNamesWhoHoldsIt) {
  share(70 * kGiB);
  knows_processes = true;
  CudaBackend backend;
  machine().used_bytes += kContextBytes;
  expect_error<EnvironmentError>([&] { backend.allocate(20 * kGiB); },
                                 {"less free memory", "20.0 GiB to allocate", "9.50 GiB free of 80.0 GiB",
                                  "(process 1) 70.0 GiB", "9.50 GiB or less", "--budget"});
  machine().nvml = {};
  CudaBackend blind;
  expect_error<EnvironmentError>([&] { blind.allocate(20 * kGiB); }, {"held by processes not visible from here"});
}

}  // namespace
}  // namespace plimsoll::test
