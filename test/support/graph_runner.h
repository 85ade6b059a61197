// GraphRunner: runs a graph on any backend without a memory plan, and checks the kernels while it does.
//
// Every value has its own guarded memory in the backend, which the host accesses by copies only. An output that must
// take an input's bytes (Alias::kMust) shares them; one that may (kMay) does so as `reuse` says, if that input dies at
// the node. It detects, and names the node: writes outside an output or the declared scratch, writes to an input, an
// output that must share an input's bytes and does not. Rows beyond the row count are NaN (or a wild integer) before
// and after every node, as is the scratch, so a kernel that reads undefined data spoils its result. A kernel may
// overwrite such rows of an input.
//
//   GraphRunner runner(graph, backend, {.reuse = Reuse::kFirst});
//   runner.set("x", x_values);
//   runner.run();
//   std::vector<double> y = runner.made("dense");   // the promised rows, as its node left them
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "support/guarded_buffer.h"

namespace plimsoll::test {

enum class Reuse {
  kNever,  // outputs that may share an input's bytes have their own
  kFirst,  // … take the first input that allows it and dies at the node
  kLast    // … take the last such input
};

struct RunnerOptions {
  Reuse reuse = Reuse::kNever;
  // The host is told this many more rows than the row count. Without a value it is told nothing.
  std::optional<std::int64_t> bound_slack{};
};

class GraphRunner {
 public:
  // Prepares every node. Both arguments must outlive the runner. Throws what the backend throws.
  GraphRunner(const Graph& graph, Backend& backend, RunnerOptions options = {});

  // For each value, that whose bytes it takes: itself, unless it shares an input's.
  static std::vector<ValueId> places(const Graph& graph, Reuse reuse);

  // Writes a source value; if there are fewer values than the tensor has, the rest is poisoned. With reuse, a run may
  // consume inputs, so set them before each run.
  void set(ValueId value, std::span<const double> values);
  void set(std::string_view source, std::span<const double> values);
  // Runs all nodes in order. Throws InternalError on the faults named above.
  void run();

  // The rows that the value's node defines, as they were right after the node ran (later nodes may reuse the bytes).
  const std::vector<double>& made(ValueId value) const;
  const std::vector<double>& made(std::string_view name) const;  // the last value of that name
  // Returns a value's memory as it is now.
  std::vector<double> get(ValueId value) const;

 private:
  void allocate();
  void run_node(std::size_t index);
  // The leading rows of a node's output that the op's contract defines; the outputs must have been computed.
  std::int64_t promised_rows(const Node& node, std::size_t output) const;
  DeviceTensor tensor(ValueId value) const;
  std::int32_t read_count(ValueId value) const { return tensor(value).get<std::int32_t>(); }
  // Copies the rows of a value that no kernel may overwrite.
  std::vector<std::byte> promised_bytes(ValueId value) const;
  ValueId last_of_name(std::string_view name) const;

  const Graph& graph_;
  Backend& backend_;
  // Rows that no node promises are poisoned again after each node. On a GPU one kernel relies on what another has left
  // there (backend/cuda/sizes/tails.h), so they are poisoned once, before a run.
  bool forgets_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // one for each node
  std::unique_ptr<DeviceMemory> memory_;          // one allocation, which may be costly on a device
  std::vector<GuardedBuffer> buffers_;            // one for each value, empty if it lies in another's
  std::vector<ValueId> home_;                     // the value whose buffer holds each value
  std::vector<GuardedBuffer> scratch_;            // one for each node
  std::vector<std::vector<double>> made_;
  std::vector<std::int64_t> promised_;  // defined leading rows of a node's output; all rows of sources
  std::optional<std::int64_t> bound_slack_;
};

}  // namespace plimsoll::test
