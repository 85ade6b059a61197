#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "graph/product_batches.h"
#include "graph/update_form.h"
#include "ranks/communicator.h"

namespace plimsoll {
namespace {

// True if none of the calls writes bytes that another one reads or writes; of scratch, the last one's counts.
bool are_independent(std::span<const KernelCall> calls) {
  struct Part {
    const std::byte *begin, *end;
    std::size_t call;
    bool written;
  };
  std::vector<Part> parts;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const auto add = [&](const void* at, std::size_t bytes, bool written) {
      const auto* const begin = static_cast<const std::byte*>(at);
      if (bytes > 0) parts.push_back({begin, begin + bytes, call, written});
    };
    const KernelArguments& a = calls[call].arguments;
    for (const TensorView& input : a.inputs) add(input.raw(), input.bytes(), false);
    for (const TensorView& output : a.outputs) add(output.raw(), output.bytes(), true);
    if (call + 1 == calls.size()) add(a.scratch.data(), a.scratch.size(), true);
  }
  std::ranges::sort(parts, {}, &Part::begin);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t k = i + 1; k < parts.size() && parts[k].begin < parts[i].end; ++k) {
      if (parts[i].call != parts[k].call && (parts[i].written || parts[k].written)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::size_t> PreparedGraph::scratch_bytes() const {
  std::vector<std::size_t> bytes;
  bytes.reserve(kernels.size());
  for (const auto& kernel : kernels) bytes.push_back(kernel->scratch_bytes());
  return bytes;
}

PreparedGraph prepare(Graph graph, Backend& backend) {
  verify(graph);
  PreparedGraph prepared{.graph = std::move(graph), .kernels = {}, .recorder = backend.make_recorder()};
  prepared.kernels.reserve(prepared.graph.nodes().size());
  for (const Node& node : prepared.graph.nodes()) prepared.kernels.push_back(backend.prepare(prepared.graph, node));
  return prepared;
}

Program::Program(PreparedGraph prepared, MemoryPlan plan, const DeviceMemory& memory, Transfers* transfers,
                 Communicator* ranks)
    : prepared_(std::move(prepared)), plan_(std::move(plan)), arena_(&memory), transfers_(transfers), ranks_(ranks) {
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
    const std::size_t counter = counter_of(node);
    calls_.push_back({.inputs = views_of(node.inputs),
                      .outputs = views_of(node.outputs),
                      .scratch = arena.subspan(plan_.scratch_offsets[n], prepared_.kernels[n]->scratch_bytes()),
                      .row_count = node.row_count == kNoValue ? nullptr : view(node.row_count).data<std::int32_t>(),
                      .counter = counter});
  }
  const auto first = std::ranges::find_if(graph.nodes(), [](const Node& node) { return is_parameter_update(node.op); });
  first_update_ = static_cast<std::size_t>(first - graph.nodes().begin());
  if (prepared_.recorder != nullptr) {
    join_neighbours();
    for (std::size_t n = 0; n < plan_.joins.size(); ++n) {
      if (plan_.joins[n] != kNoNode) forks_.push_back(n);
    }
    std::ranges::stable_sort(forks_, {}, [this](std::size_t n) { return plan_.joins[n]; });
  }
  const bool exchanges = std::ranges::any_of(graph.nodes(), [](const Node& node) { return is_collective(node.op); });
  if (ranks_ != nullptr && exchanges && !memory.is_host()) levels_.resize(static_cast<std::size_t>(ranks_->size()));
}

// A step has many parameter updates, most of them small, and products that read the same rows. Neighbours that do not
// touch each other's bytes may run in any order.
void Program::join_neighbours() {
  const std::deque<Node>& nodes = graph().nodes();
  const auto updates = [&](std::size_t n) {
    return n < nodes.size() && is_parameter_update(nodes[n].op) && nodes[n].row_count == kNoValue;
  };
  for (std::size_t first = 0; first < nodes.size();) {
    std::size_t count = 0;
    while (updates(first + count)) ++count;
    if (count > 0) {  // updates are joined all or none
      if (count > 1) join(first, first + count);
    } else {  // of products, as many as the backend takes
      count = batched_products(graph(), first);
      while (count > 1 && !join(first, first + count)) --count;
    }
    first += count;
  }
}

bool Program::join(std::size_t first, std::size_t end) {
  std::vector<KernelCall> calls;
  for (std::size_t n = first; n < end; ++n) {
    if (!plan_.joins.empty() && plan_.joins[n] != kNoNode) return false;  // it forks
    const Call& call = calls_[n];
    calls.push_back(
        {.kernel = prepared_.kernels[n].get(),
         .arguments = {
             .inputs = call.inputs, .outputs = call.outputs, .scratch = call.scratch, .row_count = call.row_count}});
  }
  if (!are_independent(calls)) return false;
  Kernel::JoinedCalls run = calls.front().kernel->join(calls);
  if (!run) return false;
  joined_.push_back({first, end, std::move(run)});
  return true;
}

std::size_t Program::counter_of(const Node& node) {
  if (node.row_count == kNoValue || graph().value(node.row_count).role != Role::kInput) return kNoCounter;
  const auto found = std::ranges::find(row_counts_, node.row_count, &RowCount::value);
  const auto counter = static_cast<std::size_t>(found - row_counts_.begin());
  if (found == row_counts_.end()) row_counts_.push_back({.value = node.row_count, .capacity = 1, .real = 1});
  // A forward node's output has the rows that the node counts (for a loss, the logits' gradient has them); other
  // gradients may have another number of rows.
  const Shape& made = graph().type(node.outputs[is_loss(node.op) ? 1 : 0]).shape;
  if (node.phase == Phase::kForward && made.rank() > 0) {
    RowCount& count = row_counts_[counter];
    count.real = count.capacity = std::max(count.capacity, made[0]);
  }
  return counter;
}

std::int64_t Program::bound_at(const RowCount& count, std::int64_t level) {
  return (count.capacity * level + kRowLevels - 1) / kRowLevels;
}

std::int64_t Program::row_level() const {
  std::int64_t level = 1;
  if (arena_->is_host()) return kRowLevels;  // kernels read the counts themselves
  for (const RowCount& count : row_counts_) {
    while (level < kRowLevels && count.real > bound_at(count, level)) ++level;
  }
  return level;
}

std::int64_t Program::row_level_of_ranks() const {
  const std::int64_t own = row_level();
  if (levels_.empty()) return own;
  all_gather(*ranks_, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(levels_)));
  return *std::ranges::max_element(levels_);
}

std::vector<std::int64_t> Program::row_bounds() const {
  std::set<std::int64_t> bounds;
  for (const RowCount& count : row_counts_) {
    for (std::int64_t level = 1; level <= kRowLevels; ++level) bounds.insert(bound_at(count, level));
  }
  return {bounds.begin(), bounds.end()};
}

bool Program::is_row_count(ValueId value) const {
  return std::ranges::find(row_counts_, value, &RowCount::value) != row_counts_.end();
}

void Program::set_rows(ValueId value, std::int32_t rows) const {
  const auto count = std::ranges::find(row_counts_, value, &RowCount::value);
  check(count != row_counts_.end() && rows >= 0 && rows <= count->capacity, "a row count is within its capacity");
  tensor(value).set(rows);
  count->real = rows;
}

void Program::run_all(std::int64_t level) const {
  const std::function<void(std::size_t)> run_one = [this, level](std::size_t n) { run_node(n, level); };
  auto fork = forks_.begin();
  const auto join_before = [&](std::size_t end) {
    for (; fork != forks_.end() && static_cast<std::size_t>(plan_.joins[*fork]) < end; ++fork) {
      prepared_.recorder->join(*fork);
    }
  };
  std::size_t n = 0;
  const auto run_to = [&](std::size_t end) {
    for (; n < end; ++n) {
      join_before(n + 1);
      if (!forks_.empty() && plan_.joins[n] != kNoNode) {
        prepared_.recorder->fork(n, run_one);
      } else {
        run_one(n);
      }
    }
  };
  for (const Joined& joined : joined_) {
    run_to(joined.first);
    join_before(joined.end);
    joined.run(row_bound(joined.first, level));
    if (ranks_ != nullptr) ranks_->poll();
    n = joined.end;
  }
  run_to(calls_.size());
  join_before(calls_.size() + 1);
}

void Program::run() const {
  const std::int64_t level = row_level_of_ranks();
  if (prepared_.recorder == nullptr) return run_all(level);
  prepared_.recorder->run(level, [this, level] { run_all(level); });
}

bool Program::run(const Interrupt& interrupt) const {
  if (prepared_.recorder != nullptr) {
    if (interrupt.pending()) return false;
    run();
    return true;
  }
  const std::int64_t level = row_level_of_ranks();
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    if (n <= first_update_ && interrupt.pending()) return false;
    run_node(n, level);
  }
  return true;
}

void Program::run_node(std::size_t node) const { run_node(node, row_level()); }

void Program::wait() const {
  std::byte any;
  if (!arena_->is_host()) arena_->read(arena_->bytes().data(), {&any, 1});  // a read waits for all kernels
}

std::int64_t Program::row_bound(std::size_t node, std::int64_t level) const {
  const std::size_t counter = calls_[node].counter;
  return counter == kNoCounter ? std::numeric_limits<std::int64_t>::max() : bound_at(row_counts_[counter], level);
}

void Program::run_node(std::size_t node, std::int64_t level) const {
  const Call& call = calls_[node];
  prepared_.kernels[node]->run({.inputs = call.inputs,
                                .outputs = call.outputs,
                                .scratch = call.scratch,
                                .row_count = call.row_count,
                                .transfers = transfers_,
                                .ranks = ranks_,
                                .row_bound = row_bound(node, level)});
  if (ranks_ != nullptr) ranks_->poll();
}

DeviceTensor Program::source(std::string_view name) const {
  const ValueId value = graph().find_source(name);
  check(value != kNoValue,
        [&] { return fmt::format("the program has no input, parameter or state named '{}'", name); });
  return tensor(value);
}

}  // namespace plimsoll
