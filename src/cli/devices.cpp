#include "cli/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/bytes.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/usage.h"
#ifdef PLIMSOLL_HAS_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gpu.h"
#endif

namespace plimsoll {
namespace {

// Returns the index in "cuda:1", 0 for "cuda"; nothing for "cpu".
std::optional<int> gpu_index(const std::string& device) {
  if (device == "cpu") return std::nullopt;
  if (device == "cuda") return 0;
  constexpr std::string_view kBefore = "cuda:";
  const bool is_cuda = device.starts_with(kBefore);
  const char* const begin = device.data() + (is_cuda ? kBefore.size() : 0);
  const char* const end = device.data() + device.size();
  int index = -1;
  const auto [rest, error] = std::from_chars(begin, end, index);
  if (!is_cuda || error != std::errc() || rest != end || index < 0) {
    throw UsageError({.what = "unknown device",
                      .where = "--device",
                      .found = fmt::format("'{}'", device),
                      .allowed = "cpu, cuda, or cuda:N for GPU number N, counted from 0"});
  }
  return index;
}

int visible_gpus() {
#ifdef PLIMSOLL_HAS_CUDA
  return cuda::visible_gpus();
#else
  return 0;
#endif
}

Device open_gpu(int index, [[maybe_unused]] const DeviceOptions& options) {
#ifdef PLIMSOLL_HAS_CUDA
  auto backend = std::make_unique<CudaBackend>(index);
  if (options.enforce_eager) backend->start_one_by_one();
  if (options.single_products) backend->multiply_one_by_one();
  const cuda::Gpu& gpu = backend->gpu();
  Device device{
      .backend = nullptr, .argument = fmt::format("cuda:{}", index), .name = gpu.name(), .summary = gpu.summary()};
  device.backend = std::move(backend);
  return device;
#else
  throw NoDeviceError({.what = "this program was built without CUDA: it computes on the CPU only",
                       .where = fmt::format("--device cuda:{}", index),
                       .allowed = "--device cpu",
                       .remedy =
                           "install the CUDA toolkit (nvcc of CUDA 12 or later) and build again: scripts/build.sh "
                           "finds nvcc on PATH or in /usr/local/cuda/bin"});
#endif
}

}  // namespace

void add_device_option(Command* command, DeviceOptions& options) {
  command
      ->add_option("--device", options.device,
                   "Device to compute on: cpu, cuda, or cuda:N for GPU number N (default: cpu, even if there is a GPU)")
      ->type_name("NAME");
  command->add_flag("--enforce-eager", options.enforce_eager,
                    "With --device cuda: launch kernels one by one instead of as CUDA graphs; slower, same numbers. "
                    "With CUDA_LAUNCH_BLOCKING=1 a debugger stops at the failing kernel");
}

void add_backend_option(Command* command, DeviceOptions& options) {
  one_of(command->add_option("--backend", options.backend, "With --device cpu: cpu, or reference (simple loops, slow)"),
         {"cpu", "reference"})
      ->type_name("NAME")
      ->capture_default_str();
}

DeviceOptions device_of_rank(const DeviceOptions& options, const Launch& launch) {
  if (launch.size == 1 || !gpu_index(options.device)) return options;
  DeviceOptions own = options;
  if (options.device != "cuda") {
    if (launch.local_size == 1) return own;
    throw UsageError({.what = "several ranks of a machine cannot use one GPU",
                      .where = "--device",
                      .found = fmt::format("{}, and {} ranks on this machine", options.device, launch.local_size),
                      .allowed = "cuda, with one GPU per rank, or one rank per machine",
                      .remedy = "pass --device cuda"});
  }
  // A launcher may show each rank only its own GPU.
  own.device = fmt::format("cuda:{}", visible_gpus() == 1 ? 0 : launch.local_rank);
  return own;
}

Device open_device(const Invocation& invocation, const DeviceOptions& options) {
  const std::optional<int> gpu = gpu_index(options.device);
  if (gpu && options.backend != "cpu") {
    throw UsageError({.what = "the reference backend runs on the CPU",
                      .where = "--backend reference",
                      .found = fmt::format("--device {}", options.device),
                      .allowed = "only one of them",
                      .remedy = "omit one of them"});
  }
  if (gpu) return open_gpu(*gpu, options);
  Device device{.backend = nullptr, .argument = "cpu", .name = processor_name(), .summary = {}};
  if (options.backend == "reference") {
    device.backend = std::make_unique<ReferenceBackend>();
  } else {
    auto cpu = std::make_unique<CpuBackend>(invocation.threads);
    device.threads = cpu->threads();
    if (device.threads > std::max(16, 4 * available_cores())) {
      log_warning(fmt::format(
          "--threads {} on {}: more than four threads per core make it slower, and their memory is not planned",
          device.threads, counted(available_cores(), "processor")));
    }
    device.backend = std::move(cpu);
  }
  return device;
}

std::string AbsentGpu::text() const {
  return fmt::format(
      "planned without a GPU ({})\n"
      "  assumed: {} of the GPU's memory and {} of the host's for driver, kernels and libraries;\n"
      "  copies at {:.0f} GB/s; {};\n"
      "  as much of the host's memory as --host-budget says, else any. train asks the GPU itself",
      reason, format_bytes(assumed.reserved_bytes), format_bytes(assumed.host_bytes),
      assumed.transfer.read_bytes_per_second / 1e9,
      speed.empty() ? "the speed of a typical GPU" : "the speed of an " + speed);
}

nlohmann::json AbsentGpu::json() const {
  return {{"reason", reason},
          {"device_memory_bytes", assumed.memory_bytes > 0 ? nlohmann::json(assumed.memory_bytes) : nlohmann::json()},
          {"context_and_libraries_bytes", assumed.reserved_bytes},
          {"host_libraries_bytes", assumed.host_bytes},
          {"copy_bytes_per_second", assumed.transfer.read_bytes_per_second},
          {"speeds", speed.empty() ? "typical" : speed}};
}

Device open_device_to_plan(const Invocation& invocation, const DeviceOptions& options, std::size_t memory_bytes,
                           bool has_budget) {
  std::string reason;
  try {
    return open_device(invocation, options);
  } catch (const NoDeviceError& error) {
    reason = error.problem().what;
  }
  if (memory_bytes == 0 && !has_budget) {
    throw UsageError({.what = "the memory of the GPU to plan for is not known",
                      .where = fmt::format("--device {}", options.device),
                      .found = fmt::format("{}, and neither --device-memory nor --budget", reason),
                      .allowed = "--device-memory SIZE if there is no GPU to ask",
                      .remedy = "pass the memory of the GPU that will train, such as --device-memory 24GiB"});
  }
  return assume_gpu(options, memory_bytes, std::move(reason));
}

Device assume_gpu(const DeviceOptions& options, std::size_t memory_bytes, std::string reason, std::string speed) {
  const AssumedGpu assumed{.memory_bytes = memory_bytes, .records = !options.enforce_eager};
  AbsentGpu absent{.assumed = assumed, .reason = std::move(reason), .speed = std::move(speed)};
  return {.backend = std::make_unique<CudaPlanner>(assumed),
          .argument = options.device,
          .name = "a GPU that is assumed",
          .summary = absent.text(),
          .absent = std::move(absent)};
}

void tell_build([[maybe_unused]] doctor::Facts& facts) {
#ifdef PLIMSOLL_HAS_CUDA
  facts.built_cuda = cuda::runtime_version();
  facts.code = cuda::built_code();
#endif
}

}  // namespace plimsoll
