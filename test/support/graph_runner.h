// GraphRunner: runs a graph on any backend without a memory plan, and watches the kernels while it does.
//
// Every value has guarded memory of its own, the backend's, which the host reaches by copies alone; an output that must
// take an input's bytes (Alias::kMust) shares them, one that may (kMay) does as `reuse` says, if that input dies at the
// node. Caught, with the node's name in the message: writes outside an output or the declared scratch, writes to an
// input, an output that must lie in an input's bytes and does not. Rows behind the row count are NaN (or a wild
// integer) before and after every node, as is the scratch, so a kernel that reads what nobody promised spoils its
// result. Such rows of an input a kernel may overwrite.
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
  kNever,  // outputs that may lie in an input's bytes have their own
  kFirst,  // … take the first input that allows it and dies at the node
  kLast    // … take the last such input
};

struct RunnerOptions {
  Reuse reuse = Reuse::kNever;
  // What the host is told of a row count: this many more than there are. None: nothing.
  std::optional<std::int64_t> bound_slack{};
};

class GraphRunner {
 public:
  // Prepares every node. Both must outlive the runner. Throws what the backend throws.
  GraphRunner(const Graph& graph, Backend& backend, RunnerOptions options = {});

  // Writes a source value; with fewer values than the tensor has, the rest is poisoned. With reuse, a run may consume
  // inputs: set them before each run.
  void set(ValueId value, std::span<const double> values);
  void set(std::string_view source, std::span<const double> values);
  // Runs all nodes in order. Throws InternalError on the faults named above.
  void run();

  // What the value's node promises of it, as it was right after the node ran (later nodes may have taken the bytes).
  const std::vector<double>& made(ValueId value) const;
  const std::vector<double>& made(std::string_view name) const;  // the last value of that name
  // A value's memory as it is now.
  std::vector<double> get(ValueId value) const;

 private:
  void place_values(Reuse reuse);
  void allocate();
  void run_node(std::size_t index);
  // Leading rows of a node's output that the op's contract promises; its outputs have been computed.
  std::int64_t promised_rows(const Node& node, std::size_t output) const;
  DeviceTensor tensor(ValueId value) const;
  std::int32_t read_count(ValueId value) const { return tensor(value).get<std::int32_t>(); }
  // Of what a value holds, a copy of the rows that no kernel may overwrite.
  std::vector<std::byte> promised_bytes(ValueId value) const;
  ValueId last_of_name(std::string_view name) const;

  const Graph& graph_;
  Backend& backend_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // one a node
  std::unique_ptr<DeviceMemory> memory_;          // one allocation, which may be costly on a device
  std::vector<GuardedBuffer> buffers_;            // one a value, empty where it lies in another's
  std::vector<ValueId> home_;                     // the value whose buffer each value lies in
  std::vector<GuardedBuffer> scratch_;            // one a node
  std::vector<std::vector<double>> made_;
  std::vector<std::int64_t> promised_;  // leading rows of what a node made; of sources all
  std::optional<std::int64_t> bound_slack_;
};

}  // namespace plimsoll::test
