// OpTable: one entry for each op that has one, as a list of rows that the compiler reads. Two rows for one op do not
// compile.
//
//   using GradientRule = void (*)(Graph&, const Node&);
//   static constexpr OpTable<GradientRule> kRules = {{Op::kGelu, gelu_rule}, {Op::kTanh, tanh_rule}};
//   if (kRules[node.op] != nullptr) kRules[node.op](graph, node);
#pragma once

#include <array>
#include <initializer_list>

#include "graph/op.h"

namespace plimsoll {

template <typename Entry>
class OpTable {
 public:
  struct Row {
    Op op;
    Entry entry;
  };
  constexpr OpTable(std::initializer_list<Row> rows) {
    for (const Row& row : rows) {
      Entry& entry = entries_[static_cast<std::size_t>(row.op)];
      if (entry != Entry{}) throw "an op has one row";
      entry = row.entry;
    }
  }
  // Entry{} for an op without a row.
  constexpr const Entry& operator[](Op op) const { return entries_[static_cast<std::size_t>(op)]; }

 private:
  std::array<Entry, kOpCount> entries_{};
};

}  // namespace plimsoll
