// Backend and Kernel: turn a node into something that runs.
//
// `prepare` does all slow work (code generation, choice of algorithms, checks) and declares the scratch bytes that the
// kernel needs while it runs; `run` allocates nothing, throws nothing on valid input (except fetch and store nodes,
// whose disk may fail, and collectives, whose other ranks may) and may be called any number of times.
//
//   std::unique_ptr<Kernel> kernel = backend.prepare(graph, node);
//   kernel->run({.inputs = in, .outputs = out, .scratch = scratch, .row_count = &rows});
#pragma once

#include <algorithm>
#include <chrono>
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

// A device failed during its work, and this process can no longer use it. The failing kernel is known if the device was
// synchronized after each kernel (runtime/checked_run.h).
class DeviceError : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

// This machine has no device of the requested kind, or the program was built without support for it.
class NoDeviceError : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

class Transfers;     // backend/transfers.h
class Communicator;  // ranks/communicator.h
class OffloadStore;  // backend/transfers.h

struct KernelArguments {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<std::byte> scratch;             // at least scratch_bytes(), aligned to kAlignmentBytes, contents undefined
  const std::int32_t* row_count = nullptr;  // leading rows that are real; nullptr: all
  Transfers* transfers = nullptr;           // for fetch and store nodes
  Communicator* ranks = nullptr;            // for collectives
  // An upper bound of the real rows that the host knows; a device's kernels use it for the size of their work where the
  // host cannot read row_count.
  std::int64_t row_bound = std::numeric_limits<std::int64_t>::max();

  // Returns the number of real rows of a tensor with `capacity` rows.
  std::int64_t rows(std::int64_t capacity) const { return row_count == nullptr ? capacity : *row_count; }
  // Returns an upper bound of the same, for the host of a device.
  std::int64_t bound(std::int64_t capacity) const { return std::min(capacity, row_bound); }
};

class Kernel;

// A kernel and its arguments.
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
  // Returns a function that does the same as all these calls, with the same bits, in fewer kernel launches, or nothing
  // if there is none. The function is given KernelArguments::row_bound; the calls' own is ignored. One of the calls is
  // this kernel's. None writes what another reads or writes, except that the scratch of all but the last may lie over
  // anything: the calls either run at once, with the last one's scratch, or one by one in their order. The function
  // needs the kernels and what the arguments point to, but not the memory of `calls`.
  using JoinedCalls = std::function<void(std::int64_t row_bound)>;
  virtual JoinedCalls join([[maybe_unused]] std::span<const KernelCall> calls) const { return {}; }
};

// One allocation of a backend, freed with the object.
class DeviceMemory : public MemoryAccess {
 public:
  // Addresses for kernels; the host may use them only if is_host().
  virtual std::span<std::byte> bytes() const = 0;
};

// Launches all kernels of one program repeatedly. A device may record the launches, once for each `variant`, and launch
// the recording as a whole from then on: within a variant, `start` must do the same each time.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  virtual void run(std::int64_t variant, const std::function<void()>& start) = 0;
  // Within `start`: calls `run(node)`, whose kernels may run concurrently with those launched later, until join(node).
  virtual void fork(std::size_t node, const std::function<void(std::size_t)>& run) { run(node); }
  virtual void join([[maybe_unused]] std::size_t node) {}
  // Returns how long the device has worked on the launched kernels, by its own clock. Waits for their end.
  virtual double device_seconds() = 0;
};

// The memory of a device that has its own.
struct DeviceUse {
  std::size_t held_bytes = 0;  // by this process
  std::size_t free_bytes = 0;  // held by no process
};

// The algorithms chosen for some kernels of a device. They differ in the last bits of sums, so results repeat bit for
// bit only with the same algorithms.
struct Choices {
  std::string device{};                             // device and library they apply to; empty: nothing to choose
  std::map<std::string, std::string> algorithms{};  // the backend's own text for each computation
  friend bool operator==(const Choices&, const Choices&) = default;
};

// The sizes of buffers for copies between the host and a device.
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
  // Generates the code of the kernels that are alive, which they need before they run and estimates do without.
  virtual void make_code() {}
  // Estimates how many bytes the code of the kernels that are alive takes, whether or not it has been generated.
  virtual std::size_t code_bytes() const { return 0; }
  // Frees what belongs to no kernel that is alive, such as generated code.
  virtual void release_unused() {}
  // Makes the one large allocation of a run and touches every page. Throws EnvironmentError naming the requested size.
  virtual std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) = 0;
  // Returns a recorder for one program; nullptr if kernels are launched one by one.
  virtual std::unique_ptr<Recorder> make_recorder() { return nullptr; }
  // Measures the speed of transfers to and from make_offload_store; nullopt: this backend offloads to files.
  virtual std::optional<TransferSpeed> offload_speed() { return std::nullopt; }
  // Returns the sizes of the buffers that belong to an allocation of that size.
  virtual BufferBytes buffer_bytes(std::size_t) const { return {}; }
  // Makes a store for offloaded tensors that is faster than a file; `tickets` exceeds the largest of any transfer node.
  // Throws EnvironmentError if there is no room. nullptr: this backend offloads to files.
  virtual std::unique_ptr<OffloadStore> make_offload_store(std::uint64_t bytes, std::size_t tickets);
  // Prepares all kernels for these row bounds (KernelArguments::row_bound), so that running them allocates
  // nothing.
  virtual void prepare_bounds(std::span<const std::int64_t>) {}
  // Returns the choices for all kernels that are prepared and alive, whether given or timed.
  virtual Choices choices() { return {}; }
  // Uses those choices in preference to earlier ones. Returns false, and changes nothing, if they are for another
  // device or library. Empty choices fit any device. Call before prepare_bounds. Throws DataError, naming `where`, for
  // a text that is not a choice.
  virtual bool use_choices(const Choices& choices, [[maybe_unused]] const std::string& where) {
    return choices.device.empty();
  }
  // Chooses the fastest algorithm where no choice was given. Uses `memory`, whose contents are lost unless the result,
  // the number of timings, is 0. Call before prepare_bounds. Throws DataError if a given choice does not run.
  virtual std::size_t tune(const DeviceMemory&) { return 0; }
  // Returns the device's current memory use; nothing if kernels work in the host's memory.
  virtual std::optional<DeviceUse> device_use() { return std::nullopt; }
  // Returns the bytes that the process holds on the device besides allocate()'s: for its context and libraries;
  // complete once kernels are prepared. 0 if memory is the host's, which includes them.
  virtual std::size_t reserved_bytes() { return 0; }
  // Returns the most that libraries allocate for themselves while kernels run, beyond the few MiB that every run
  // reserves.
  virtual std::size_t library_bytes() const { return 0; }
  // Returns true if this machine multiplies bytes faster than floats, so that Op::kLinearInt8 pays.
  virtual bool multiplies_int8() const { return false; }
  // True if linear rounds a weight or bias that is wider than its rows before each product, so that rounding it once
  // saves time.
  virtual bool rounds_parameters() const { return false; }
  // Returns the fewest rows of F32 in a chunk of a vocabulary's scores; of halves, a chunk has at least twice as many
  // (transform/chunked_loss.h). It depends on nothing else, since another chunk size would give other bits.
  virtual std::int64_t fewest_loss_rows() const { return 64; }
  // True if neighbouring products may become one (graph/product_batches.h), so that it pays to bring them together.
  virtual bool batches_products() const { return false; }
  // Returns how many partial sums over rows the node's kernel makes, if adding them up later, with those of other
  // nodes, saves time (transform/partial_sums.h); 0: it makes whole sums.
  virtual std::int64_t parts_of_sums(const Graph&, const Node&) const { return 0; }
  // True if attention computes the whole matrix of its biases each time, so that keeping it saves time.
  virtual bool keeps_attention_biases() const { return false; }
  // True if linear_input_grad with an addend takes less time than linear_input_grad and then add, for rows and a weight
  // of that type.
  virtual bool adds_to_products([[maybe_unused]] DType rows) const { return false; }
  // Returns when every launched kernel has ended; does nothing if run() returns after its work.
  virtual void wait() {}
  // Connects the devices of all ranks, which exchange tensors directly; call it once, on all ranks, before anything is
  // prepared. A rank that does not answer for `timeout` has failed. Does nothing if tensors lie in the host's memory.
  // Throws EnvironmentError if the devices cannot be connected.
  virtual void connect(Communicator&, std::chrono::milliseconds) {}
  // Returns the part of reserved_bytes() that belongs to that connection.
  virtual std::size_t connection_bytes() const { return 0; }
};

}  // namespace plimsoll
