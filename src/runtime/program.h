// Program: a graph, its prepared kernels and its memory plan over one arena, ready to run. Running allocates nothing.
//
//   PreparedGraph prepared = prepare(std::move(graph), backend);      // slow work, no tensor memory yet
//   MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
//   auto memory = backend.allocate(plan.arena_bytes());               // several programs may share it
//   Program program(std::move(prepared), plan, *memory);
//   program.run();
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "graph/graph.h"
#include "plan/memory_plan.h"

namespace plimsoll {

struct PreparedGraph {
  Graph graph;
  std::vector<std::unique_ptr<Kernel>> kernels;  // one a node

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

  // Runs every node in order. Not reentrant: kernels share the arena.
  void run() const;
  // Runs one node; for profiling and for finding the first bad tensor.
  void run_node(std::size_t node) const;

  // The value's place in the arena, for kernels. Contents are defined while the value is alive.
  TensorView view(ValueId value) const { return views_.at(static_cast<std::size_t>(value)); }
  // The same as the host reaches it.
  DeviceTensor tensor(ValueId value) const { return {view(value), *arena_}; }
  // An input, parameter or state by name; throws InternalError if there is none.
  DeviceTensor source(std::string_view name) const;
  bool has_source(std::string_view name) const { return graph().find_source(name) != kNoValue; }

 private:
  struct Call {
    std::vector<TensorView> inputs, outputs;
    std::span<std::byte> scratch;
    const std::int32_t* row_count;
  };

  PreparedGraph prepared_;
  MemoryPlan plan_;
  const DeviceMemory* arena_;
  std::vector<TensorView> views_;
  std::vector<Call> calls_;
  Transfers* transfers_;
};

}  // namespace plimsoll
