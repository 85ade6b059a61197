// Data parallelism: every rank computes the gradients of its own samples, and all ranks sum them. The stages of ZeRO
// say what each rank keeps of the result: all gradients, and updates every parameter (0); all gradients, but the
// optimizer state of what it owns alone (1); gradients too of what it owns alone (2); parameters too (3:
// transform/parameter_shards.h).
//
// Gradients travel in buckets, in the order in which backward completes them: while one is on its way, backward goes on
// with the next. A gradient that comes by rows travels as rows. Sums are taken in the order of ranks for each element
// by itself, so the stage and the size of buckets change where bytes are, never what they hold.
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
  // sums is another one, so that it belongs to what a run's numbers depend on.
  bool sums_each_micro_batch = false;
  std::size_t bucket_bytes = std::size_t{25} << 20;  // as PyTorch's DistributedDataParallel has it

  bool updates_shards() const { return ranks > 1 && zero_stage >= 1; }
  bool keeps_gradient_shards() const { return ranks > 1 && zero_stage >= 2; }
  bool keeps_parameter_shards() const { return ranks > 1 && zero_stage >= 3; }
};

// Divides the parameters of a forward graph: those that train, and from stage 3 on large frozen ones too. `whole`: the
// ones that train are not cut, because their update needs all of one. Every program of a run gets the same division.
Shards divide_parameters(const Graph& graph, std::span<const ValueId> trained, const RankOptions& options, bool whole);

// Inserts the exchange of gradients behind the nodes that complete them. `gradients` is replaced by the sums over
// ranks: whole tensors, of which stage 1 defines the own elements alone; from stage 2 on the own elements, flat, unless
// all of a parameter is owned.
Graph sum_over_ranks(const Graph& graph, Gradients& gradients, const Shards& shards, const RankOptions& options);

// Appends the exchange of parameters of which each rank has updated what it owns; not of those that stay in shards.
void gather_parameters(Graph& graph, const Shards& shards, const RankOptions& options);

}  // namespace plimsoll
