#include "graph/op_facts.h"

#include <fmt/format.h>

namespace plimsoll {
namespace {

using Table = std::array<const OpFacts*, kOpCount>;

Table collect() {
  Table table{};
  for (const std::span<const OpFacts> rows : {forward_ops(), loss_ops(), backward_ops(), update_ops(), rank_ops()}) {
    for (const OpFacts& facts : rows) {
      const OpFacts*& row = table[static_cast<std::size_t>(facts.op)];
      check(row == nullptr, [&] { return fmt::format("the op {} has one row", facts.name); });
      row = &facts;
    }
  }
  for (std::size_t op = 0; op < kOpCount; ++op) {
    check(table[op] != nullptr, [&] { return fmt::format("op {} of the catalogue has a row", op); });
  }
  return table;
}

}  // namespace

const OpFacts& op_facts(Op op) {
  static const Table table = collect();
  return *table[static_cast<std::size_t>(op)];
}

std::string_view op_name(Op op) { return op_facts(op).name; }

std::vector<Alias> op_aliases(Op op, std::size_t input_count) {
  const OpAliases& facts = op_facts(op).aliases;
  std::vector<Alias> aliases;
  for (std::size_t i = 0; i < facts.pair_count; ++i) {
    if (facts.pairs[i].input < input_count) aliases.push_back(facts.pairs[i]);
  }
  for (std::size_t i = 0; facts.in_place_but && i + *facts.in_place_but < input_count; ++i) {
    aliases.push_back({i, i, Alias::Kind::kMust});
  }
  return aliases;
}

std::optional<std::int64_t> defined_rows(const Node& node, std::size_t output,
                                         const std::function<std::int64_t(ValueId)>& read) {
  const OutputRows& rows = op_facts(node.op).rows;
  if (rows.counted == OutputRows::Counted::kBySecondOutput) {
    if (output == 1) return std::nullopt;
    return read(node.outputs[1]);
  }
  const std::size_t count = rows.count_of == nullptr ? rows.count : rows.count_of(node);
  if (node.row_count == kNoValue || output < rows.first || output - rows.first >= count) return std::nullopt;
  const std::int64_t real = read(node.row_count);
  if (rows.counted == OutputRows::Counted::kByRowCount) return real;
  const std::int64_t patches = std::get<VisualAttributes>(node.attributes).patches;
  return real / (patches + 1) * patches;
}

}  // namespace plimsoll
