// Data parallelism: every rank computes the gradients of its own samples, and all ranks sum them. The stages of ZeRO
// say what each rank keeps of the result: all gradients, and it updates every parameter (0); all gradients, but
// optimizer states only of what it owns (1); gradients, too, only of what it owns (2); and parameters, too (3:
// transform/parameter_shards.h).
//
// Gradients travel in buckets, in the order in which backward completes them: while one is on its way, backward
// computes the next. A gradient by rows is sent as rows. Each element is summed by itself in the order of ranks, so the
// stage and the size of buckets change where bytes are, never their values.
//
//   graph = sum_over_ranks(graph, gradients, shards, options);   // before append_optimizer
//   gather_parameters(graph, shards, options);                   // after it, for stages that update shards
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "transform/optimizer.h"
#include "transform/shards.h"

namespace plimsoll {

struct RankOptions {
  int rank = 0, ranks = 1;
  int zero_stage = 0;
  // An update of several micro-batches sums over ranks after each of them (true), or after the last one. The order of
  // sums differs, so a run's numbers depend on this.
  bool sums_each_micro_batch = false;
  std::size_t bucket_bytes = std::size_t{25} << 20;  // as in PyTorch's DistributedDataParallel

  bool updates_shards() const { return ranks > 1 && zero_stage >= 1; }
  bool keeps_gradient_shards() const { return ranks > 1 && zero_stage >= 2; }
  bool keeps_parameter_shards() const { return ranks > 1 && zero_stage >= 3; }
};

// Divides the parameters of a forward graph: those that train, and from stage 3 on large frozen ones too. `whole`:
// those that train are not cut, because an update needs the whole parameter. Every program of a run gets the same
// division.
Shards divide_parameters(const Graph& graph, std::span<const ValueId> trained, const RankOptions& options, bool whole);

// Inserts the exchange of gradients after the nodes that complete them. `gradients` is replaced by the sums over ranks:
// whole tensors, of which stage 1 defines only the rank's own elements; from stage 2 on only the rank's own elements,
// flat, unless it owns the whole parameter.
Graph sum_over_ranks(const Graph& graph, Gradients& gradients, const Shards& shards, const RankOptions& options);

// Appends the exchange of parameters, of which each rank has updated its own elements; parameters that stay in shards
// are not exchanged.
void gather_parameters(Graph& graph, const Shards& shards, const RankOptions& options);

}  // namespace plimsoll
