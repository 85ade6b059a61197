// MemoryPlan: where every value of a graph lives, decided before anything runs.
//
// One arena a place: first what outlives a step (parameters, states; laid out once for all programs of a run), then the
// transient part (inputs, activations, gradients, kernels' scratch), which every program uses for itself.
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
#include "plan/packing.h"

namespace plimsoll {

// Offsets of parameters and states by name; names and types agree between graphs.
class PersistentLayout {
 public:
  struct Entry {
    std::size_t offset = 0;
    TensorType type;
    Role role = Role::kParameter;
  };
  // Adds the parameters and states that `graph` has beyond those known. Throws InternalError if a known name has
  // another type there.
  void add(const Graph& graph);
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry& at(const std::string& name) const;
  std::size_t bytes() const { return bytes_; }

 private:
  std::map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
};

// One piece of transient memory: a value and whoever takes its bytes after it, or one node's scratch.
struct Buffer {
  std::string name;
  std::vector<ValueId> values;  // in the order in which they take the bytes; empty for scratch
  NodeId scratch_of = kNoNode;
  Role role = Role::kActivation;  // of the first value
  bool staging = false;           // what a fetch fills
  Interval life;                  // in node numbers: alive from before node `begin` runs until before node `end`
};

// The transient buffers of `graph`: aliases resolved (kMust always, kMay where the input dies at the node), sizes
// rounded up to kAlignmentBytes. Inputs are alive from the start, outputs to the end.
std::vector<Buffer> find_buffers(const Graph& graph, std::span<const std::size_t> scratch_bytes);

struct MemoryPlan {
  std::vector<std::size_t> value_offsets;    // from the arena's start, one a value
  std::vector<std::size_t> scratch_offsets;  // one a node
  std::size_t persistent_bytes = 0;
  std::size_t transient_bytes = 0;
  std::size_t lower_bound_bytes = 0;  // no plan of this graph in this order has a smaller transient part
  bool is_smallest = false;           // proven: it reaches the bound, or no packing of these buffers is smaller
  NodeId peak_node = kNoNode;         // where most bytes are alive
  std::vector<Buffer> buffers;

  std::size_t arena_bytes() const { return persistent_bytes + transient_bytes; }
};

// What plan_memory would give if packing reached its bound, without offsets: quick, to compare plans by.
MemoryPlan estimate_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes,
                           const PersistentLayout& layout);

// `scratch_bytes`: one a node, as its kernel declared. The result has been checked by `validate` and `validate_plan`.
MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes, const PersistentLayout& layout);

// What a plan's bytes are for, in the order in which people ask.
struct MemoryItem {
  std::string name;  // "parameters", "optimizer state", "activations", …
  std::size_t bytes = 0;
};
// The buffers alive at the transient peak, grouped: inputs, activations, gradients, offload staging, scratch; then
// holes between them.
std::vector<MemoryItem> explain_peak(const MemoryPlan& plan);

// What a training step's forward leaves to its backward.
struct ForwardBytes {
  std::size_t kept = 0;   // values alive when backward begins, inputs left out
  std::size_t again = 0;  // the most that values computed again hold at any moment of backward
};
ForwardBytes forward_bytes(const Graph& graph, const MemoryPlan& plan);

}  // namespace plimsoll
