// What a command computes on: the CPU, or a GPU that --device names.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/sizes/cuda_planner.h"
#include "cli/command.h"
#include "doctor/facts.h"
#include "ranks/launcher.h"

namespace plimsoll {

struct DeviceOptions {
  std::string device = "cpu";
  bool enforce_eager = false;    // on a GPU, kernels are launched one by one
  bool single_products = false;  // on a GPU, no products are computed at once
  std::string backend = "cpu";   // or "reference", for commands that check numbers
};
void add_device_option(Command* command, DeviceOptions& options);
void add_backend_option(Command* command, DeviceOptions& options);

// An assumed GPU, for which a run is planned although none can be queried.
struct AbsentGpu {
  AssumedGpu assumed;
  std::string reason;  // why none can be queried
  std::string speed;   // whose speed the plan assumes: "NVIDIA L4"; empty: a typical GPU's

  // Return what was assumed, as lines and as JSON.
  std::string text() const;
  nlohmann::json json() const;
};

struct Device {
  std::unique_ptr<Backend> backend;
  std::string argument;               // the name that --device takes
  std::string name;                   // of the processor or GPU: speeds measured on one do not apply to another
  std::string summary;                // a line about the GPU and its driver; empty for the CPU
  int threads = 1;                    // of the host, on which its kernels run
  std::optional<AbsentGpu> absent{};  // if set, the backend can only plan, for this GPU
};

// Returns the device of a rank: "cuda" is its own GPU, with its number among the machine's ranks, or the only one that
// it sees. Throws UsageError if "cuda:N" would be the GPU of several ranks.
DeviceOptions device_of_rank(const DeviceOptions& options, const Launch& launch);

// Throws UsageError for an unknown name, EnvironmentError if this build or machine has no such device.
Device open_device(const Invocation& invocation, const DeviceOptions& options);

// Does the same for `plan`: if this build or machine has no GPU, it assumes one with `memory_bytes` (0: unknown, which
// is enough if `has_budget`). Throws UsageError if neither is known.
Device open_device_to_plan(const Invocation& invocation, const DeviceOptions& options, std::size_t memory_bytes,
                           bool has_budget);
// Returns a GPU of that name and memory, whatever this machine has: it can only plan.
Device assume_gpu(const DeviceOptions& options, std::size_t memory_bytes, std::string reason, std::string speed = {});

// Sets what the doctor cannot know by itself: the CUDA and the kernels that this program is built with.
void tell_build(doctor::Facts& facts);

}  // namespace plimsoll
