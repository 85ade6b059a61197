#include "runtime/program.h"

#include <fmt/format.h>

namespace plimsoll {

std::vector<std::size_t> PreparedGraph::scratch_bytes() const {
  std::vector<std::size_t> bytes;
  bytes.reserve(kernels.size());
  for (const auto& kernel : kernels) bytes.push_back(kernel->scratch_bytes());
  return bytes;
}

PreparedGraph prepare(Graph graph, Backend& backend) {
  verify(graph);
  PreparedGraph prepared{.graph = std::move(graph), .kernels = {}};
  prepared.kernels.reserve(prepared.graph.nodes().size());
  for (const Node& node : prepared.graph.nodes()) prepared.kernels.push_back(backend.prepare(prepared.graph, node));
  return prepared;
}

Program::Program(PreparedGraph prepared, MemoryPlan plan, const DeviceMemory& memory, Transfers* transfers)
    : prepared_(std::move(prepared)), plan_(std::move(plan)), arena_(&memory), transfers_(transfers) {
  const Graph& graph = prepared_.graph;
  const std::span<std::byte> arena = memory.bytes();
  check(arena.size() >= plan_.arena_bytes(), "the arena holds the plan");
  check(plan_.value_offsets.size() == graph.values().size(), "the plan belongs to the graph");
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    views_.emplace_back(graph.values()[v].type, arena.data() + plan_.value_offsets[v]);
  }
  const auto views_of = [this](const std::vector<ValueId>& values) {
    std::vector<TensorView> views;
    views.reserve(values.size());
    for (const ValueId value : values) views.push_back(view(value));
    return views;
  };
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    calls_.push_back({.inputs = views_of(node.inputs),
                      .outputs = views_of(node.outputs),
                      .scratch = arena.subspan(plan_.scratch_offsets[n], prepared_.kernels[n]->scratch_bytes()),
                      .row_count = node.row_count == kNoValue ? nullptr : view(node.row_count).data<std::int32_t>()});
  }
}

void Program::run() const {
  for (std::size_t n = 0; n < calls_.size(); ++n) run_node(n);
}

void Program::run_node(std::size_t node) const {
  const Call& call = calls_[node];
  prepared_.kernels[node]->run({.inputs = call.inputs,
                                .outputs = call.outputs,
                                .scratch = call.scratch,
                                .row_count = call.row_count,
                                .transfers = transfers_});
}

DeviceTensor Program::source(std::string_view name) const {
  const ValueId value = graph().find_source(name);
  check(value != kNoValue,
        [&] { return fmt::format("the program has no input, parameter or state named '{}'", name); });
  return tensor(value);
}

}  // namespace plimsoll
