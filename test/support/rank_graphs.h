// What tests of the exchange between ranks share: a graph of one rank, planned and bound, and the nodes by which ranks
// look up rows of a table that they share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "plan/memory_plan.h"
#include "ranks/communicator.h"
#include "runtime/program.h"

namespace plimsoll::test {

// A graph on the reference backend, with memory of its own, as one of the ranks runs it.
class RankProgram {
 public:
  RankProgram(Graph graph, Communicator& ranks) {
    PreparedGraph prepared = prepare(std::move(graph), backend_);
    PersistentLayout layout;
    layout.add(prepared.graph);
    const MemoryPlan plan = plan_memory(prepared.graph, prepared.scratch_bytes(), layout);
    memory_ = backend_.allocate(plan.arena_bytes());
    ranks.reserve(16);
    program_ = std::make_unique<Program>(std::move(prepared), plan, *memory_, nullptr, &ranks);
  }
  const Program* operator->() const { return program_.get(); }

 private:
  ReferenceBackend backend_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Program> program_;
};

// A rank's look-up of `ids` rows of a table f[rows, width], of which rank r owns [rows_of[r], rows_of[r + 1]).
struct RowLookUp {
  ValueId own, ids, count;  // inputs: the rows that this rank owns; ids, and how many of them are real
  ValueId rows, places;     // outputs: rows, and the place of each id among them
};
// Without `counted`, all ids are real.
inline RowLookUp add_row_look_up(Graph& graph, int rank, const std::vector<std::int64_t>& rows_of, std::int64_t width,
                                 DType dtype, std::int64_t ids, bool counted) {
  const auto own = static_cast<std::size_t>(rank);
  const int ranks = static_cast<int>(rows_of.size()) - 1;
  CollectiveAttributes of_ids{.ticket = 1, .rank = rank, .ranks = ranks, .parts = {}};
  const auto add_part = [&](std::int64_t each) {
    auto& part = of_ids.parts.emplace_back();
    part.type = {DType::kI32, {ranks * each}};
    for (int r = 0; r <= ranks; ++r) part.bounds.push_back(r * each);
  };
  add_part(ids);
  if (counted) add_part(1);
  CollectiveAttributes of_rows{.ticket = 2, .rank = rank, .ranks = ranks, .parts = {}};
  auto& table = of_rows.parts.emplace_back();
  table.type = {dtype, {rows_of.back(), width}};
  for (const std::int64_t row : rows_of) table.bounds.push_back(row * width);

  RowLookUp look_up{};
  look_up.own = graph.add_input("own", {dtype, {rows_of[own + 1] - rows_of[own], width}});
  look_up.ids = graph.add_input("ids", {DType::kI32, {ids}});
  look_up.count = graph.add_input("count", {DType::kI32, {1}});
  std::vector<ValueId> told = {look_up.ids};
  if (counted) told.push_back(look_up.count);
  for (const Op op : {Op::kGatherShardsBegin, Op::kAllGatherEnd}) {
    told = graph.add_node({.op = op, .name = std::string(op_name(op)), .attributes = of_ids, .inputs = told});
  }
  told.insert(told.begin(), look_up.own);
  const auto begun =
      graph.add_node({.op = Op::kAllToAllRowsBegin, .name = "begin", .attributes = of_rows, .inputs = std::move(told)});
  look_up.rows = graph.add_node(
      {.op = Op::kAllToAllRowsEnd, .name = "end", .attributes = of_rows, .inputs = {begun[0], begun[2]}})[0];
  look_up.places = begun[1];
  graph.mark_output(look_up.rows);
  graph.mark_output(look_up.places);
  return look_up;
}

}  // namespace plimsoll::test
