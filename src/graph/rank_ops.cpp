// The shape rules and the facts of the ops that exchange data between ranks.
#include <algorithm>
#include <cstdint>

#include "graph/op_facts.h"
#include "graph/op_work.h"
#include "graph/shape_rule.h"

namespace plimsoll {
namespace {

// Checks the parts, which are the first inputs, and returns them.
Types parts_of(const ShapeRule& rule) {
  const auto& attributes = rule.attributes<CollectiveAttributes>();
  const auto ranks = static_cast<std::size_t>(attributes.ranks);
  rule.require(attributes.ranks > 0 && attributes.rank >= 0 && attributes.rank < attributes.ranks,
               "is of one of the ranks");
  rule.require(attributes.ticket > 0, "has a ticket");
  Types types;
  for (std::size_t i = 0; i < attributes.parts.size(); ++i) {
    const auto& part = attributes.parts[i];
    rule.expect(i, part.type);
    bool ascends =
        part.bounds.size() == ranks + 1 && part.bounds.front() == 0 && part.bounds.back() == part.type.shape.elements();
    for (std::size_t r = 0; ascends && r < ranks; ++r) ascends = part.bounds[r] <= part.bounds[r + 1];
    rule.require(ascends, "divides every part among the ranks");
    types.push_back(part.type);
  }
  return types;
}

// Returns the buffer in which the other ranks' elements are received; all parts have one type.
TensorType staging_of(const ShapeRule& rule, bool whole) {
  const auto& attributes = rule.attributes<CollectiveAttributes>();
  rule.require(!attributes.parts.empty(), "has parts");
  const DType dtype = attributes.parts.front().type.dtype;
  std::int64_t elements = 0;
  for (const auto& part : attributes.parts) {
    rule.require(part.type.dtype == dtype && is_floating(dtype), "sums floats of one type");
    const auto rank = static_cast<std::size_t>(attributes.rank);
    elements += whole ? part.bounds.back() : part.bounds[rank + 1] - part.bounds[rank];
  }
  return {dtype, {elements * (attributes.ranks - 1)}};
}

template <bool kWhole>
Types reduce_begin_types(const ShapeRule& rule) {
  rule.inputs(rule.attributes<CollectiveAttributes>().parts.size());
  Types types = parts_of(rule);
  types.push_back(staging_of(rule, kWhole));
  return types;
}

template <bool kWhole>
Types reduce_end_types(const ShapeRule& rule) {
  const std::size_t parts = rule.attributes<CollectiveAttributes>().parts.size();
  rule.inputs(parts + 1);
  rule.expect(parts, staging_of(rule, kWhole));
  return parts_of(rule);
}

Types all_gather_types(const ShapeRule& rule) {
  rule.inputs(rule.attributes<CollectiveAttributes>().parts.size());
  return parts_of(rule);
}

Types gather_shards_types(const ShapeRule& rule) {
  const auto& attributes = rule.attributes<CollectiveAttributes>();
  rule.inputs(attributes.parts.size());
  Types types;
  for (std::size_t i = 0; i < attributes.parts.size(); ++i) {
    const auto& part = attributes.parts[i];
    const auto rank = static_cast<std::size_t>(attributes.rank);
    rule.require(part.bounds.size() == static_cast<std::size_t>(attributes.ranks) + 1, "divides every part");
    rule.require(
        rule.in(i).dtype == part.type.dtype && rule.in(i).shape.elements() == part.bounds[rank + 1] - part.bounds[rank],
        "has this rank's elements of every part");
    types.push_back(part.type);
  }
  return types;
}

Types gather_rows_begin_types(const ShapeRule& rule) {
  const std::int64_t ranks = rule.attributes<CollectiveAttributes>().ranks;
  rule.inputs(3);
  const TensorType& rows = rule.floating(2, 2);
  rule.expect(0, i32({rows.shape[0]}));
  rule.expect(1, i32({1}));
  return {i32({ranks * rows.shape[0]}), {rows.dtype, {ranks * rows.shape[0], rows.shape[1]}}, i32({ranks})};
}

Types gather_rows_end_types(const ShapeRule& rule) {
  const std::int64_t ranks = rule.attributes<CollectiveAttributes>().ranks;
  rule.inputs(3);
  const TensorType& rows = rule.floating(1, 2);
  rule.require(rows.shape[0] % ranks == 0, "has as many rows of each rank");
  rule.expect(0, i32({rows.shape[0]}));
  rule.expect(2, i32({ranks}));
  return {rule.in(0), rows, i32({1})};
}

// Returns how many ids each rank has, given the ids of all ranks.
std::int64_t ids_a_rank(const ShapeRule& rule, std::int64_t ids) {
  const std::int64_t ranks = rule.attributes<CollectiveAttributes>().ranks;
  rule.require(ranks > 0 && ids % ranks == 0, "has as many ids of each rank");
  return ids / ranks;
}

Types all_to_all_rows_begin_types(const ShapeRule& rule) {
  const auto& attributes = rule.attributes<CollectiveAttributes>();
  rule.inputs(2, 3);
  rule.require(attributes.parts.size() == 1 && attributes.parts[0].type.shape.rank() == 2, "has a table as its part");
  const auto& part = attributes.parts[0];
  const auto rank = static_cast<std::size_t>(attributes.rank);
  rule.require(part.bounds.size() == static_cast<std::size_t>(attributes.ranks) + 1, "divides the table");
  const std::int64_t width = part.type.shape[1];
  const std::int64_t own = part.bounds[rank + 1] - part.bounds[rank];
  rule.require(std::ranges::all_of(part.bounds, [&](std::int64_t bound) { return bound % width == 0; }),
               "divides the table between its rows");
  rule.expect(0, {part.type.dtype, {own / width, width}});
  const std::int64_t n = ids_a_rank(rule, rule.in(1).shape.elements());
  rule.expect(1, i32({attributes.ranks * n}));
  if (rule.count() == 3) rule.expect(2, i32({attributes.ranks}));
  return {{part.type.dtype, {n, width}}, i32({n}), {part.type.dtype, {(attributes.ranks - 1) * n, width}}};
}

Types all_to_all_rows_end_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& rows = rule.floating(0, 2);
  rule.expect(1, {rows.dtype, {(rule.attributes<CollectiveAttributes>().ranks - 1) * rows.shape[0], rows.shape[1]}});
  return {rows};
}

Types slice_types(const ShapeRule& rule) {
  rule.inputs(1);
  const auto& attributes = rule.attributes<SliceAttributes>();
  const TensorType& x = rule.in(0);
  rule.require(is_floating(x.dtype), "copies floats");
  rule.require(
      attributes.first >= 0 && attributes.count >= 0 && attributes.first + attributes.count <= x.shape.elements(),
      "copies elements that are there");
  return {{x.dtype, {attributes.count}}};
}

double slice_work(const Graph& graph, const Node& node) {
  // A rank may hold nothing of a parameter, but the plan's costs must not be 0.
  return 2 * static_cast<double>(std::max<std::int64_t>(1, graph.type(node.outputs[0]).shape.elements()));
}

constexpr OpFacts kRows[] = {
    {.op = Op::kReduceScatterBegin,
     .name = "reduce_scatter_begin",
     .types = reduce_begin_types<false>,
     .work = no_work,
     .aliases = in_place_but(0)},
    {.op = Op::kReduceScatterEnd,
     .name = "reduce_scatter_end",
     .types = reduce_end_types<false>,
     .work = no_work,
     .aliases = in_place_but(1)},
    {.op = Op::kAllGatherBegin,
     .name = "all_gather_begin",
     .types = all_gather_types,
     .work = no_work,
     .aliases = in_place_but(0)},
    {.op = Op::kAllGatherEnd,
     .name = "all_gather_end",
     .types = all_gather_types,
     .work = no_work,
     .aliases = in_place_but(0)},
    {.op = Op::kGatherShardsBegin, .name = "gather_shards_begin", .types = gather_shards_types, .work = no_work},
    {.op = Op::kAllReduceBegin,
     .name = "all_reduce_begin",
     .types = reduce_begin_types<true>,
     .work = no_work,
     .aliases = in_place_but(0)},
    {.op = Op::kAllReduceEnd,
     .name = "all_reduce_end",
     .types = reduce_end_types<true>,
     .work = no_work,
     .aliases = in_place_but(1)},
    {.op = Op::kGatherRowsBegin, .name = "gather_rows_begin", .types = gather_rows_begin_types, .work = no_work},
    {.op = Op::kGatherRowsEnd,
     .name = "gather_rows_end",
     .types = gather_rows_end_types,
     .work = no_work,
     .aliases = in_place_but(1)},
    {.op = Op::kAllToAllRowsBegin,
     .name = "all_to_all_rows_begin",
     .types = all_to_all_rows_begin_types,
     .work = no_work},
    {.op = Op::kAllToAllRowsEnd,
     .name = "all_to_all_rows_end",
     .types = all_to_all_rows_end_types,
     .work = no_work,
     .aliases = in_place_but(1)},
    {.op = Op::kSlice, .name = "slice", .types = slice_types, .work = slice_work},
};

}  // namespace

std::span<const OpFacts> rank_ops() { return kRows; }

}  // namespace plimsoll
