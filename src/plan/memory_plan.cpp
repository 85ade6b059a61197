#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/bytes.h"
#include "plan/validate_plan.h"

namespace plimsoll {
namespace {

constexpr std::size_t kNoBuffer = static_cast<std::size_t>(-1);

// Returns for each value the last node that reads it (-1: none), or that runs while a forked node reads it; outputs are
// read after the end.
std::vector<std::int64_t> last_reads(const Graph& graph, std::span<const NodeId> joins) {
  std::vector<std::int64_t> last(graph.values().size(), -1);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId input : node.inputs) last[static_cast<std::size_t>(input)] = static_cast<std::int64_t>(n);
    if (node.row_count != kNoValue) last[static_cast<std::size_t>(node.row_count)] = static_cast<std::int64_t>(n);
  }
  for (std::size_t n = 0; n < joins.size(); ++n) {
    if (joins[n] == kNoNode) continue;
    const auto keep = [&](ValueId value) {
      std::int64_t& read = last[static_cast<std::size_t>(value)];
      read = std::max(read, std::int64_t{joins[n]} - 1);
    };
    const Node& node = graph.nodes()[n];
    std::ranges::for_each(node.inputs, keep);
    std::ranges::for_each(node.outputs, keep);
    if (node.row_count != kNoValue) keep(node.row_count);
  }
  for (const ValueId output : graph.outputs()) {
    last[static_cast<std::size_t>(output)] = static_cast<std::int64_t>(graph.nodes().size());
  }
  return last;
}

class BufferFinder {
 public:
  BufferFinder(const Graph& graph, std::span<const NodeId> joins)
      : graph_(graph), joins_(joins), last_(last_reads(graph, joins)), buffer_of_(graph.values().size(), kNoBuffer) {}

  std::vector<Buffer> run(std::span<const std::size_t> scratch_bytes) {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      if (graph_.values()[v].producer == kNoNode) open(static_cast<ValueId>(v), 0);
    }
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      add_outputs(n);
      if (n < scratch_bytes.size() && scratch_bytes[n] > 0) add_scratch(n, scratch_bytes[n]);
    }
    return std::move(buffers_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  bool is_fetched(ValueId id) const {
    const NodeId producer = value(id).producer;
    return producer != kNoNode && graph_.node(producer).op == Op::kFetchBegin;
  }

  void open(ValueId id, std::int64_t begin) {
    if (is_persistent(value(id).role)) return;
    const std::int64_t last = last_[static_cast<std::size_t>(id)];
    buffer_of_[static_cast<std::size_t>(id)] = buffers_.size();
    buffers_.push_back({.name = value(id).name,
                        .values = {id},
                        .role = value(id).role,
                        .staging = is_fetched(id),
                        .life = {.begin = begin,
                                 .end = std::max(begin, last) + 1,
                                 .bytes = round_up(value(id).type.bytes(), kAlignmentBytes)}});
  }

  // Lets the output share the input's buffer.
  void join(ValueId output, ValueId input) {
    const std::size_t buffer = buffer_of_[static_cast<std::size_t>(input)];
    if (buffer == kNoBuffer) return;  // persistent
    buffer_of_[static_cast<std::size_t>(output)] = buffer;
    buffers_[buffer].values.push_back(output);
    buffers_[buffer].life.end = std::max(buffers_[buffer].life.end, last_[static_cast<std::size_t>(output)] + 1);
  }

  // True if the input's bytes are free for an output of node n: nobody reads them later, and they belong to this step.
  bool dies_at(ValueId input, std::size_t n) const {
    return !is_persistent(value(input).role) &&
           last_[static_cast<std::size_t>(input)] == static_cast<std::int64_t>(n) &&
           buffers_[buffer_of_[static_cast<std::size_t>(input)]].values.back() == input;
  }

  void add_outputs(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    const std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      bool placed = false;
      for (const Alias& alias : aliases) {
        if (placed || alias.output != i) continue;
        const ValueId input = node.inputs[alias.input];
        const bool same_bytes = value(input).type.bytes() == value(output).type.bytes();
        if (alias.kind == Alias::Kind::kMust || (same_bytes && dies_at(input, n))) {
          join(output, input);
          placed = true;
        }
      }
      if (!placed) open(output, static_cast<std::int64_t>(n));
    }
  }

  void add_scratch(std::size_t n, std::size_t bytes) {
    const Node& node = graph_.nodes()[n];
    const auto time = static_cast<std::int64_t>(n);
    const bool forks = n < joins_.size() && joins_[n] != kNoNode;
    buffers_.push_back({.name = fmt::format("{} (scratch)", node.name),
                        .values = {},
                        .scratch_of = static_cast<NodeId>(n),
                        .life = {.begin = time, .end = forks ? joins_[n] : time + 1, .bytes = round_up(bytes, kAlignmentBytes)}});
  }

  const Graph& graph_;
  std::span<const NodeId> joins_;
  std::vector<std::int64_t> last_;
  std::vector<std::size_t> buffer_of_;
  std::vector<Buffer> buffers_;
};

}  // namespace

void PersistentLayout::add(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (value.producer != kNoNode || !is_persistent(value.role)) continue;
    const auto [position, inserted] =
        entries_.try_emplace(value.name, Entry{.offset = bytes_, .type = value.type, .role = value.role});
    check(position->second.type == value.type, [&] {
      return fmt::format("'{}' is {} in one program and {} in another", value.name, to_string(position->second.type),
                         to_string(value.type));
    });
    if (inserted) bytes_ += round_up(value.type.bytes(), kAlignmentBytes);
  }
}

const PersistentLayout::Entry& PersistentLayout::at(const std::string& name) const {
  const auto position = entries_.find(name);
  check(position != entries_.end(), [&] { return fmt::format("no persistent value is named '{}'", name); });
  return position->second;
}

std::vector<Buffer> find_buffers(const Graph& graph, std::span<const std::size_t> scratch_bytes,
                                 std::span<const NodeId> joins) {
  return BufferFinder(graph, joins).run(scratch_bytes);
}

namespace {

std::vector<Interval> lives(const MemoryPlan& plan) {
  std::vector<Interval> intervals;
  intervals.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) intervals.push_back(buffer.life);
  return intervals;
}

// Returns the first node at which the most bytes are alive.
NodeId find_peak(const Graph& graph, const MemoryPlan& plan) {
  if (graph.nodes().empty()) return kNoNode;
  std::vector<std::size_t> alive(graph.nodes().size() + 1, 0);
  for (const Buffer& buffer : plan.buffers) {
    for (std::int64_t t = buffer.life.begin; t < buffer.life.end; ++t) {
      alive[std::min(static_cast<std::size_t>(t), graph.nodes().size())] += buffer.life.bytes;
    }
  }
  return static_cast<NodeId>(std::max_element(alive.begin(), alive.end() - 1) - alive.begin());
}

}  // namespace

MemoryPlan estimate_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes,
                           const PersistentLayout& layout, std::size_t forks) {
  MemoryPlan plan;
  if (forks > 0) plan.joins = find_joins(graph, forks);
  plan.buffers = find_buffers(graph, scratch_bytes, plan.joins);
  plan.persistent_bytes = layout.bytes();
  plan.lower_bound_bytes = lower_bound_bytes(lives(plan));
  plan.transient_bytes = plan.lower_bound_bytes;
  plan.peak_node = find_peak(graph, plan);
  return plan;
}

MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> scratch_bytes, const PersistentLayout& layout,
                       std::size_t forks) {
  MemoryPlan plan = estimate_memory(graph, scratch_bytes, layout, forks);
  const std::vector<Interval> intervals = lives(plan);
  const Packing packing = pack(intervals, kAlignmentBytes);
  validate(intervals, packing, kAlignmentBytes);

  plan.transient_bytes = packing.bytes;
  plan.is_smallest = packing.is_smallest;
  plan.value_offsets.assign(graph.values().size(), 0);
  plan.scratch_offsets.assign(graph.nodes().size(), plan.persistent_bytes);
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (is_persistent(value.role)) plan.value_offsets[v] = layout.at(value.name).offset;
  }
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const std::size_t offset = plan.persistent_bytes + packing.offsets[b];
    for (const ValueId id : buffer.values) plan.value_offsets[static_cast<std::size_t>(id)] = offset;
    if (buffer.scratch_of != kNoNode) plan.scratch_offsets[static_cast<std::size_t>(buffer.scratch_of)] = offset;
  }
  validate_plan(graph, plan, scratch_bytes);
  return plan;
}

std::vector<MemoryItem> explain_peak(const MemoryPlan& plan) {
  std::array<std::size_t, 5> sums{};  // inputs, activations, gradients, scratch, staging
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.life.begin > plan.peak_node || buffer.life.end <= plan.peak_node) continue;
    const std::size_t kind = buffer.scratch_of != kNoNode       ? 3
                             : buffer.staging                   ? 4
                             : buffer.role == Role::kInput      ? 0
                             : buffer.role == Role::kActivation ? 1
                                                                : 2;
    sums[kind] += buffer.life.bytes;
  }
  const std::size_t holes = plan.transient_bytes - std::accumulate(sums.begin(), sums.end(), std::size_t{0});
  return {{"batch", sums[0]},           {"activations", sums[1]},    {"gradients", sums[2]},
          {"offload staging", sums[4]}, {"kernel scratch", sums[3]}, {"holes", holes}};
}

ForwardBytes forward_bytes(const Graph& graph, const MemoryPlan& plan) {
  const auto nodes = graph.nodes();
  const auto end_of_forward =
      std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.phase != Phase::kForward; });
  const auto first_backward = static_cast<NodeId>(end_of_forward - nodes.begin());
  const auto is_again = [&](ValueId value) {
    const NodeId producer = graph.value(value).producer;
    return producer >= first_backward && graph.node(producer).name.ends_with(".again");
  };
  ForwardBytes bytes;
  std::vector<std::int64_t> changes(nodes.size() + 1, 0);  // in recomputed bytes, at each node
  for (const Buffer& buffer : plan.buffers) {
    const Interval& life = buffer.life;
    if (buffer.scratch_of != kNoNode || buffer.role == Role::kInput) continue;
    if (life.begin < first_backward && life.end > first_backward) bytes.kept += life.bytes;
    if (std::any_of(buffer.values.begin(), buffer.values.end(), is_again)) {
      changes.at(static_cast<std::size_t>(life.begin)) += static_cast<std::int64_t>(life.bytes);
      changes.at(static_cast<std::size_t>(life.end)) -= static_cast<std::int64_t>(life.bytes);
    }
  }
  std::int64_t now = 0;
  for (const std::int64_t change : changes) {
    now += change;
    bytes.again = std::max(bytes.again, static_cast<std::size_t>(now));
  }
  return bytes;
}

}  // namespace plimsoll
