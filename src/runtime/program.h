// Program: a graph, its prepared kernels and its memory plan over one arena, ready to run. Running allocates nothing.
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
  std::vector<std::unique_ptr<Kernel>> kernels;  // one a node
  std::unique_ptr<Recorder> recorder;            // the backend's, if it has one

  std::vector<std::size_t> scratch_bytes() const;
};

// Verifies the graph and prepares a kernel for each node.
PreparedGraph prepare(Graph graph, Backend& backend);

class Program {
 public:
  // `arena` holds at least plan.arena_bytes() and outlives the program, as do `transfers`, which a graph with fetch and
  // store nodes needs.
  Program(PreparedGraph prepared, MemoryPlan plan, const DeviceMemory& arena, Transfers* transfers = nullptr);

  const Graph& graph() const { return prepared_.graph; }
  const MemoryPlan& plan() const { return plan_; }
  std::size_t node_count() const { return calls_.size(); }

  // Runs every node in order; where the backend records, updates that follow one another may be one kernel of its, to
  // the same bits. Not reentrant: kernels share the arena. Where the host cannot read the arena, rows are taken to be
  // as many as set_rows said, rounded up to one of kRowLevels shares of the capacity: the work done follows the rows
  // that are real, and a device that records has few variants to record.
  void run() const;
  // The same, but gives up between two nodes when `interrupt` is pending and no parameter has been changed yet: then
  // returns false. From first_update() on the run is finished. A recorded program is one call and is not cut.
  bool run(const Interrupt& interrupt) const;
  // The first node that changes a parameter; node_count() where none does.
  std::size_t first_update() const { return first_update_; }
  // Runs one node; for profiling and for finding the first bad tensor.
  void run_node(std::size_t node) const;
  // Until the kernels that were started have ended. Throws DeviceError if one has failed.
  void wait() const;

  // That a device of its own has worked in run(), by its clock; 0 where it has none. Waits until that has ended.
  double device_seconds() const { return prepared_.recorder == nullptr ? 0 : prepared_.recorder->device_seconds(); }

  // The value's place in the arena, for kernels. Contents are defined while the value is alive.
  TensorView view(ValueId value) const { return views_.at(static_cast<std::size_t>(value)); }
  // The same as the host reaches it.
  DeviceTensor tensor(ValueId value) const { return {view(value), *arena_}; }
  // An input, parameter or state by name; throws InternalError if there is none.
  DeviceTensor source(std::string_view name) const;
  bool has_source(std::string_view name) const { return graph().find_source(name) != kNoValue; }

  // Writes an input that nodes name as Node::row_count, and lets run() know of it. What is written past this is not
  // known of, and must not be more than the last count here; at first that is the capacity.
  void set_rows(ValueId count, std::int32_t rows) const;
  bool is_row_count(ValueId value) const;
  // Every bound of rows that run() may tell kernels.
  std::vector<std::int64_t> row_bounds() const;

  static constexpr std::int64_t kRowLevels = 16;

 private:
  struct Call {
    std::vector<TensorView> inputs, outputs;
    std::span<std::byte> scratch;
    const std::int32_t* row_count;
    std::size_t counter;  // in row_counts_; kNoCounter: the host knows of no count
  };
  struct RowCount {
    ValueId value;
    std::int64_t capacity;  // the most rows of a tensor that it counts
    std::int64_t real;      // as it was written last
  };
  static constexpr std::size_t kNoCounter = static_cast<std::size_t>(-1);

  // Nodes [first, end) in one.
  struct Joined {
    std::size_t first, end;
    std::function<void()> run;
  };

  void join_updates();
  std::size_t counter_of(const Node& node);
  void run_node(std::size_t node, std::int64_t level) const;
  // The least level at which no count is above its share.
  std::int64_t row_level() const;
  static std::int64_t bound_at(const RowCount& count, std::int64_t level);

  PreparedGraph prepared_;
  MemoryPlan plan_;
  const DeviceMemory* arena_;
  std::vector<TensorView> views_;
  std::vector<Call> calls_;
  std::size_t first_update_ = 0;
  std::vector<Joined> joined_;                // in order
  mutable std::vector<RowCount> row_counts_;  // what lies in the arena, as far as the host wrote it
  Transfers* transfers_;
};

}  // namespace plimsoll
