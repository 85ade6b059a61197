// Stage 3 of ZeRO: a rank keeps its own part of each large parameter, and fetches the other parts shortly before they
// are used, in forward and again in backward. (Rajbhandari et al. 2020; PyTorch's FSDP does the same.)
//
// Parameters travel in buckets, in the order in which nodes use them. While the nodes of one bucket compute, the next
// one is on its way; a fetched parameter's bytes are free after its last use in that phase. Updates work on the rank's
// own part in place. Of a table that tokens are looked up in, only the rows for a micro-batch are fetched, if all ranks
// together have fewer tokens than the table has rows: each rank sends its ids to the others, and every owner sends it
// the rows for these ids.
//
//   graph = shard_parameters(graph, shards, options);   // of a step, or of an evaluation; after all but offload
#pragma once

#include "graph/graph.h"
#include "transform/data_parallel.h"

namespace plimsoll {

// Replaces every parameter that all ranks own a part of (Shards::divides) by this rank's part, with fewer rows, under
// the same name, and likewise what belongs to it (its low half, tensor/split_float.h).
Graph shard_parameters(const Graph& graph, const Shards& shards, const RankOptions& options);

// Returns the type of the part of a parameter that a rank keeps.
TensorType shard_type(const TensorType& whole, const Shards::Range& range);

}  // namespace plimsoll
