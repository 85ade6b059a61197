// Program: a graph, its prepared kernels and its memory plan over one arena, ready to run. A run allocates nothing.
//
//   PreparedGraph prepared = prepare(std::move(graph), backend);      // slow work, no tensor memory yet
//   MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
//   auto memory = backend.allocate(plan.arena_bytes());               // several programs may share it
//   Program program(std::move(prepared), plan, *memory);
//   program.run();
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/interrupt.h"
#include "graph/graph.h"
#include "plan/memory_plan.h"

namespace plimsoll {

struct PreparedGraph {
  Graph graph;
  std::vector<std::unique_ptr<Kernel>> kernels;  // one for each node
  std::unique_ptr<Recorder> recorder;            // the backend's, if it has one

  std::vector<std::size_t> scratch_bytes() const;
};

// Verifies the graph and prepares a kernel for each node.
PreparedGraph prepare(Graph graph, Backend& backend);

class Program {
 public:
  // `arena` must hold at least plan.arena_bytes() and outlive the program, as must `transfers`, which a graph with
  // fetch and store nodes needs.
  // `ranks` is for a graph with collectives.
  Program(PreparedGraph prepared, MemoryPlan plan, const DeviceMemory& arena, Transfers* transfers = nullptr,
          Communicator* ranks = nullptr);

  const Graph& graph() const { return prepared_.graph; }
  const MemoryPlan& plan() const { return plan_; }
  std::size_t node_count() const { return calls_.size(); }

  // Runs every node in order. If the backend records kernels, consecutive updates or products may become one kernel,
  // with the same bits. Not reentrant: kernels share the arena. If the host cannot read the arena, the number of rows
  // is what set_rows said, rounded up to one of kRowLevels fractions of the capacity, so that the work grows with the
  // real rows and a device that records has few variants to record.
  void run() const;
  // Does the same, but stops between two nodes and returns false if `interrupt` is pending and no parameter has been
  // changed yet. From first_update() on the run is finished. A recorded program is one call and is not interrupted.
  bool run(const Interrupt& interrupt) const;
  // The first node that changes a parameter; node_count() if there is none.
  std::size_t first_update() const { return first_update_; }
  // Runs one node; for profiling and for finding the first bad tensor.
  void run_node(std::size_t node) const;
  // Waits until all started kernels have ended. Throws DeviceError if one has failed.
  void wait() const;

  // Waits until the device is done, and returns how long it has worked in run(), by its clock; 0 without a device.
  double device_seconds() const { return prepared_.recorder == nullptr ? 0 : prepared_.recorder->device_seconds(); }

  // The value's place in the arena, for kernels. Its contents are defined while the value is alive.
  TensorView view(ValueId value) const { return views_.at(static_cast<std::size_t>(value)); }
  // The same value for access by the host.
  DeviceTensor tensor(ValueId value) const { return {view(value), *arena_}; }
  // Returns an input, parameter or state by name; throws InternalError if there is none.
  DeviceTensor source(std::string_view name) const;
  bool has_source(std::string_view name) const { return graph().find_source(name) != kNoValue; }

  // Writes an input that nodes name as Node::row_count, and tells run() its value. A count written without this
  // function must not exceed the last count set here; the initial count is the capacity.
  void set_rows(ValueId count, std::int32_t rows) const;
  bool is_row_count(ValueId value) const;
  // Returns every row bound that run() may pass to kernels.
  std::vector<std::int64_t> row_bounds() const;

  static constexpr std::int64_t kRowLevels = 16;

 private:
  struct Call {
    std::vector<TensorView> inputs, outputs;
    std::span<std::byte> scratch;
    const std::int32_t* row_count;
    std::size_t counter;  // index into row_counts_; kNoCounter: the host does not know the count
  };
  struct RowCount {
    ValueId value;
    std::int64_t capacity;  // the most rows of a tensor that uses it
    std::int64_t real;      // the last value written
  };
  static constexpr std::size_t kNoCounter = static_cast<std::size_t>(-1);

  // Nodes [first, end) joined into one call.
  struct Joined {
    std::size_t first, end;
    Kernel::JoinedCalls run;
  };

  void join_neighbours();
  // Makes one call of nodes [first, end), if the backend has one and they touch no bytes of each other.
  bool join(std::size_t first, std::size_t end);
  // Runs every node, or launches it.
  void run_all(std::int64_t level) const;
  std::size_t counter_of(const Node& node);
  // Returns the bound that the host knows of the rows that the node counts, at that level.
  std::int64_t row_bound(std::size_t node, std::int64_t level) const;
  void run_node(std::size_t node, std::int64_t level) const;
  // Returns the smallest level at which no count exceeds its fraction.
  std::int64_t row_level() const;
  // Returns the highest level of all ranks if this program exchanges tensors between devices: all ranks launch the same
  // work, recorded on all or on none.
  std::int64_t row_level_of_ranks() const;
  static std::int64_t bound_at(const RowCount& count, std::int64_t level);

  PreparedGraph prepared_;
  MemoryPlan plan_;
  const DeviceMemory* arena_;
  std::vector<TensorView> views_;
  std::vector<Call> calls_;
  std::size_t first_update_ = 0;
  std::vector<Joined> joined_;                // in the order of nodes
  std::vector<std::size_t> forks_;            // nodes that fork, in the order of their joins
  mutable std::vector<RowCount> row_counts_;  // the counts in the arena, as the host has written them
  Transfers* transfers_;
  Communicator* ranks_;
  mutable std::vector<std::int64_t> levels_;  // of all ranks; empty: this rank's own counts
};

}  // namespace plimsoll
