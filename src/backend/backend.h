// Backend and Kernel: how a node becomes something that runs.
//
// `prepare` does all slow work (code generation, choosing algorithms, checks) and declares the scratch bytes that the
// kernel needs while it runs; `run` allocates nothing, throws nothing on valid input (but for fetch and store nodes,
// whose disk may fail) and may be called any number of times.
//
//   std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
//   kernel->run({.inputs = in, .outputs = out, .scratch = scratch, .row_count = &rows});
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/transfer_speed.h"
#include "graph/graph.h"
#include "tensor/device_tensor.h"

namespace plimsoll {

// A device failed at what it was given to do: this process can use it no more. Which kernel it was is known where the
// device was waited for after each (runtime/checked_run.h).
class DeviceError : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

class Transfers;     // backend/transfers.h
class OffloadStore;  // backend/transfers.h

struct KernelArguments {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<std::byte> scratch;             // at least scratch_bytes(), aligned to kAlignmentBytes, contents undefined
  const std::int32_t* row_count = nullptr;  // leading rows that are real; nullptr: all
  Transfers* transfers = nullptr;           // for fetch and store nodes
  // The real rows are no more than this, as far as the host knows: what kernels of a device, where the host cannot read
  // row_count, take for the size of their work.
  std::int64_t row_bound = std::numeric_limits<std::int64_t>::max();

  // Real rows of a tensor with `capacity` rows.
  std::int64_t rows(std::int64_t capacity) const { return row_count == nullptr ? capacity : *row_count; }
  // The same for the host of a device: at least as many.
  std::int64_t bound(std::int64_t capacity) const { return std::min(capacity, row_bound); }
};

class Kernel;

// A kernel, and what it is given.
struct KernelCall {
  const Kernel* kernel = nullptr;
  KernelArguments arguments{};
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  virtual std::size_t scratch_bytes() const { return 0; }
  virtual void run(const KernelArguments& arguments) const = 0;
  // A function that does what all these calls do, to the same bits, in fewer starts on a device; empty where there is
  // none. One of them is this kernel's, and none writes what another reads or writes. It needs the kernels, but nothing
  // that `calls` lies in.
  virtual std::function<void()> join([[maybe_unused]] std::span<const KernelCall> calls) const { return {}; }
};

// One allocation of a backend's, freed with the object.
class DeviceMemory : public MemoryAccess {
 public:
  // Addresses for kernels; the host may follow them only if is_host().
  virtual std::span<std::byte> bytes() const = 0;
};

// Starts all kernels of one program, again and again. A device may record what is started, once for each `variant`, and
// start the record at once from then on: within a variant, `start` does the same each time.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  virtual void run(std::int64_t variant, const std::function<void()>& start) = 0;
  // That the device has worked on what was started, by its own clock. Waits until that has ended.
  virtual double device_seconds() = 0;
};

// Memory of a device that is not the host's.
struct DeviceUse {
  std::size_t held_bytes = 0;  // by this process
  std::size_t free_bytes = 0;  // by nobody
};

// Which of several ways some kernels of a device take. They differ in the last bits of sums: results repeat bit for bit
// by the same ones only.
struct Choices {
  std::string device{};                             // and library that they are for; empty: there is nothing to choose
  std::map<std::string, std::string> algorithms{};  // texts that the backend understands, by what is computed
  friend bool operator==(const Choices&, const Choices&) = default;
};

// Buffers for copies between the host and a device.
struct BufferBytes {
  std::size_t device = 0, host = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // Throws InternalError for an op or dtype that this backend does not know.
  virtual std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) = 0;
  // The one large allocation of a run, every page of it touched. Throws EnvironmentError saying how much was asked for.
  virtual std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) = 0;
  // For one program; nullptr where kernels are started one by one.
  virtual std::unique_ptr<Recorder> make_recorder() { return nullptr; }
  // How fast tensors go to make_offload_store's and come back, measured now; nullopt: this backend offloads to files.
  virtual std::optional<TransferSpeed> offload_speed() { return std::nullopt; }
  // What goes with an allocation of that size.
  virtual BufferBytes buffer_bytes(std::size_t) const { return {}; }
  // Where offloaded tensors live, nearer than a file; `tickets`: above the largest of any transfer node. Throws
  // EnvironmentError where there is no room. nullptr: this backend offloads to files.
  virtual std::unique_ptr<OffloadStore> make_offload_store(std::uint64_t bytes, std::size_t tickets);
  // Makes ready all kernels that were prepared for these bounds of rows (KernelArguments::row_bound), so that running
  // them allocates nothing.
  virtual void prepare_bounds(std::span<const std::int64_t>) {}
  // For kernels that are prepared and live: what was taken over or chosen by time.
  virtual Choices choices() { return {}; }
  // Takes those choices over, which come before earlier ones; false where they are for another device or library:
  // nothing is changed then. Empty ones are for any. Before prepare_bounds. Throws DataError, naming `where`, for a
  // text that is no choice.
  virtual bool use_choices(const Choices& choices, [[maybe_unused]] const std::string& where) {
    return choices.device.empty();
  }
  // Chooses by time what nothing was taken over for, in `memory`, whose contents are lost if the result, how many
  // things were timed, is not 0. Before prepare_bounds. Throws DataError where a choice that was taken over does not
  // run.
  virtual std::size_t tune(const DeviceMemory&) { return 0; }
  // Of the device as it is now; nothing where kernels work in the host's memory.
  virtual std::optional<DeviceUse> device_use() { return std::nullopt; }
  // What the process holds on the device beside what allocate() gave: its context and libraries, complete once kernels
  // are prepared. 0 where memory is the host's, which counts such things among its own.
  virtual std::size_t reserved_bytes() { return 0; }
  // Returns when every kernel that was run has ended; nothing to wait for where run() returns after its work.
  virtual void wait() {}
};

}  // namespace plimsoll
