// OpFacts: all that the engine needs to know about an op besides its kernels and its gradient, one row per op. The rows
// are in forward_ops.cpp, loss_ops.cpp, backward_ops.cpp, update_ops.cpp and rank_ops.cpp, each beside its op's shape
// rule. Code that needs a fact asks the row; it does not list ops.
//
//   const OpFacts& facts = op_facts(node.op);
//   const bool is_cheap = output < facts.cheap_outputs;
//   const double seconds = facts.work(graph, node) * seconds_per_unit;
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

class ShapeRule;

// Which outputs take which inputs' bytes: a few pairs, or every input in place. A pair applies if the node has its
// input.
struct OpAliases {
  std::array<Alias, 3> pairs{};
  std::size_t pair_count = 0;
  // If set, output i is input i, changed in place, for all inputs except this many at the end.
  std::optional<std::size_t> in_place_but = std::nullopt;
};
// The output may take the bytes of any one of these inputs.
constexpr OpAliases may_take(std::size_t output, std::initializer_list<std::size_t> inputs) {
  OpAliases aliases;
  for (const std::size_t input : inputs) aliases.pairs.at(aliases.pair_count++) = {output, input, Alias::Kind::kMay};
  return aliases;
}
constexpr OpAliases must_take(std::size_t output, std::size_t input) {
  return {.pairs = {{{output, input, Alias::Kind::kMust}}}, .pair_count = 1};
}
constexpr OpAliases in_place_but(std::size_t last_inputs) { return {.in_place_but = last_inputs}; }

// How many leading rows of its outputs a node defines.
struct OutputRows {
  enum class Counted : std::uint8_t {
    kByRowCount,     // outputs `first` to `first + count - 1` have Node::row_count rows, the others all; with
                     // `count_of` it says how many
    kByPatches,      // the same, as many rows as the samples of that many rows have patches
    kBySecondOutput  // the other outputs have as many rows as the second output says
  };
  Counted counted = Counted::kByRowCount;
  std::size_t first = 0, count = static_cast<std::size_t>(-1);
  std::size_t (*count_of)(const Node&) = nullptr;
};

// The range of the indices with which a node reads a table: those in input `input` are from `low` to `end - 1`, or
// `ignored`.
struct IndexRange {
  std::size_t input;
  std::int64_t low, end;
  std::int64_t ignored = 0;  // means no row, in every table
};

struct OpFacts {
  Op op;
  std::string_view name;                               // its only name in graphs, kernels, tests and benchmarks
  std::vector<TensorType> (*types)(const ShapeRule&);  // its shape rule
  // Its work for a node whose rows are all real, in the unit that kernels' time grows with (graph/op_work.h).
  double (*work)(const Graph&, const Node&);
  // If its own speed is not measured, the speed of this op is used, whose work is counted in the same unit.
  Op priced_like = Op::kAdd;
  OpAliases aliases{};
  bool takes_halves = false;      // every backend has a kernel for rows of BF16 and F16
  bool makes_infinities = false;  // -infinity in an output marks what is left out, and is not an error
  bool takes_codes = false;       // the same, for a weight of Q8 or NF4
  std::size_t cheap_outputs = 0;  // this many leading outputs cost almost nothing to recompute
  OutputRows rows{};
  IndexRange (*indices)(const Graph&, const Node&) = nullptr;  // for an op that reads rows of a table
};

const OpFacts& op_facts(Op op);

// Returns how many leading rows of an output are defined; nothing: all. `read` returns what an i32[1] value holds.
std::optional<std::int64_t> defined_rows(const Node& node, std::size_t output,
                                         const std::function<std::int64_t(ValueId)>& read);

// The rows that each file defines.
std::span<const OpFacts> forward_ops();
std::span<const OpFacts> loss_ops();
std::span<const OpFacts> backward_ops();
std::span<const OpFacts> update_ops();
std::span<const OpFacts> rank_ops();

}  // namespace plimsoll
