// MemoryPlan: the address of every value of a graph, decided before anything runs.
//
// Each memory has one arena: first persistent data (parameters, states; laid out once for all programs of a run), then
// the transient part (inputs, activations, gradients, kernels' scratch), which the programs use in turn.
//
//   PersistentLayout layout;
//   layout.add(graph);                                   // once for each program's graph
//   const MemoryPlan plan = plan_memory(graph, scratch_bytes, layout);
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/forks.h"
#include "plan/packing.h"

namespace plimsoll {

// The offsets of parameters and states by name; names and types must agree between graphs.
class PersistentLayout {
 public:
  struct Entry {
    std::size_t offset = 0;
    TensorType type;
    Role role = Role::kParameter;
  };
  // Adds the parameters and states of `graph` that are new. Throws InternalError if a known name has another type
  // there.
  void add(const Graph& graph);
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry& at(const std::string& name) const;
  std::size_t bytes() const { return bytes_; }

 private:
  std::map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
};

// One piece of transient memory: a value and those that reuse its bytes, or one node's scratch.
struct Buffer {
  std::string name;
  std::vector<ValueId> values;  // in the order in which they use the bytes; empty for scratch
  NodeId scratch_of = kNoNode;
  Role role = Role::kActivation;  // that of the first value
  bool staging = false;           // true if a fetch fills it
  Interval life;                  // in node numbers: alive from before node `begin` runs until before node `end`
};

// Returns the transient buffers of `graph`: aliases resolved (kMust always, kMay if the input dies at the node), sizes
// rounded up to kAlignmentBytes. Inputs are alive from the start, outputs to the end; what a forking node reads and
// writes, until its join (`joins`, as find_joins returns them; empty: none forks).
std::vector<Buffer> find_buffers(const Graph& graph, std::span<const std::size_t> scratch_bytes,
                                 std::span<const NodeId> joins = {});

struct MemoryPlan {
  std::vector<std::size_t> value_offsets;    // from the arena's start, one for each value
  std::vector<std::size_t> scratch_offsets;  // one for each node
  std::size_t persistent_bytes = 0;
  std::size_t transient_bytes = 0;
  std::size_t lower_bound_bytes = 0;  // no plan of this graph in this order has a smaller transient part
  bool is_smallest = false;           // proven: it reaches the bound, or no packing of these buffers is smaller
  NodeId peak_node = kNoNode;         // the node with the most bytes alive
  std::vector<NodeId> joins;          // by node, for those that fork (find_joins); empty: none does
  std::vector<Buffer> buffers;

  std::size_t arena_bytes() const { return persistent_bytes + transient_bytes; }
};

// Returns what plan_memory would return if packing reached its bound, without offsets: quick, for comparing plans.
MemoryPlan estimate_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes,
                           const PersistentLayout& layout, std::size_t forks = 0);

// `scratch_bytes` has each node's declared scratch; up to `forks` nodes may overlap others (plan/forks.h). The
// result has been checked by `validate` and `validate_plan`.
MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes, const PersistentLayout& layout,
                       std::size_t forks = 0);

// The purpose of a plan's bytes, in the order that users ask for.
struct MemoryItem {
  std::string name;  // "parameters", "optimizer state", "activations", …
  std::size_t bytes = 0;
};
// Groups the buffers alive at the transient peak: inputs, activations, gradients, offload staging, scratch; then the
// holes between them.
std::vector<MemoryItem> explain_peak(const MemoryPlan& plan);

// The bytes that a training step's forward leaves for its backward.
struct ForwardBytes {
  std::size_t kept = 0;   // values alive when backward begins, without inputs
  std::size_t again = 0;  // the most bytes of recomputed values at any moment of backward
};
ForwardBytes forward_bytes(const Graph& graph, const MemoryPlan& plan);

}  // namespace plimsoll
