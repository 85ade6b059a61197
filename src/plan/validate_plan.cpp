#include "plan/validate_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {
namespace {

// Works like check(), but formats the message only if it is needed.
template <typename Message>
void require(bool holds, const Message& message) {
  if (!holds) check(false, message());
}

// The owner of bytes: a value, or no value (a node's scratch).
constexpr ValueId kScratch = kNoValue;

struct Range {
  std::size_t begin = 0, end = 0;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

class OwnedMemory {
 public:
  void write(const Range& range, ValueId owner) {
    if (range.begin == range.end) return;
    cut(range.begin);
    cut(range.end);
    owners_.erase(owners_.lower_bound(range.begin), owners_.lower_bound(range.end));
    owners_[range.begin] = {range.end, owner};
  }

  bool belongs_to(const Range& range, ValueId owner) const {
    if (range.begin == range.end) return true;
    auto piece = owners_.upper_bound(range.begin);  // the piece before it begins at or before the range
    if (piece == owners_.begin()) return false;
    std::size_t at = range.begin;
    for (--piece; at < range.end; ++piece) {
      if (piece == owners_.end() || piece->first > at || piece->second.end <= at) return false;
      if (piece->second.owner != owner) return false;
      at = piece->second.end;
    }
    return true;
  }

 private:
  struct Piece {
    std::size_t end = 0;
    ValueId owner = kScratch;
  };
  // Makes `at` a boundary between pieces.
  void cut(std::size_t at) {
    const auto next = owners_.lower_bound(at);
    if (next == owners_.begin()) return;
    const auto piece = std::prev(next);
    if (piece->second.end <= at) return;
    owners_[at] = piece->second;
    piece->second.end = at;
  }

  std::map<std::size_t, Piece> owners_;  // by the piece's begin; pieces never overlap
};

class Player {
 public:
  Player(const Graph& graph, const MemoryPlan& plan, std::span<const std::size_t> scratch_bytes)
      : graph_(graph), plan_(plan), scratch_bytes_(scratch_bytes) {}

  void play() {
    const std::size_t values = graph_.values().size(), nodes = graph_.nodes().size();
    check(plan_.value_offsets.size() == values && plan_.scratch_offsets.size() == nodes,
          "the plan belongs to the graph");
    check(scratch_bytes_.empty() || scratch_bytes_.size() == nodes, "scratch is known for each node");
    for (std::size_t v = 0; v < values; ++v) check_place(static_cast<ValueId>(v));
    for (std::size_t v = 0; v < values; ++v) {
      const auto id = static_cast<ValueId>(v);
      if (graph_.value(id).producer != kNoNode) continue;
      memory_.write(range_of(id), id);
      if (is_persistent(graph_.value(id).role)) persistent_[id] = id;
    }
    check(plan_.joins.empty() || plan_.joins.size() == nodes, "the plan knows of each node whether it forks");
    for (std::size_t n = 0; n < nodes; ++n) {
      std::erase_if(flights_, [n](const Flight& flight) { return flight.join <= n; });
      run(n);
      if (!plan_.joins.empty() && plan_.joins[n] != kNoNode) fork(n);
    }
    for (const auto& [source, now] : persistent_) check_whole(now, "the end of the step");
    for (const ValueId output : graph_.outputs()) check_whole(output, "the end of the step");
  }

 private:
  Range range_of(ValueId id) const {
    const std::size_t offset = plan_.value_offsets[static_cast<std::size_t>(id)];
    return {offset, offset + graph_.type(id).bytes()};
  }

  void check_place(ValueId id) const {
    const Range range = range_of(id);
    const std::string& name = graph_.value(id).name;
    require(range.begin % kAlignmentBytes == 0, [&] { return fmt::format("'{}' is not aligned", name); });
    const bool persistent = is_persistent(graph_.value(id).role);
    const std::size_t first = persistent ? 0 : plan_.persistent_bytes;
    const std::size_t end = persistent ? plan_.persistent_bytes : plan_.arena_bytes();
    require(range.begin >= first && range.end <= end,
            [&] { return fmt::format("'{}' leaves its part of the arena", name); });
  }

  void check_whole(ValueId id, std::string_view reader) const {
    require(memory_.belongs_to(range_of(id), id),
            [&] { return fmt::format("'{}' has been overwritten before {} reads it", graph_.value(id).name, reader); });
  }

  // The bytes that a forked node, which may still be running, touches.
  struct Flight {
    std::size_t node = 0, join = 0;
    std::vector<Range> reads{}, writes{};
  };

  Range scratch_of(std::size_t n) const {
    const std::size_t offset = plan_.scratch_offsets[n];
    return {offset, offset + (scratch_bytes_.empty() ? 0 : scratch_bytes_[n])};
  }

  void fork(std::size_t n) {
    const auto join = static_cast<std::size_t>(plan_.joins[n]);
    require(join > n && join <= graph_.nodes().size(),
            [&] { return fmt::format("node {} forks and is joined before node {}", n, plan_.joins[n]); });
    flights_.push_back(touched(n));
    flights_.back().join = join;
  }

  Flight touched(std::size_t n) const {
    const Node& node = graph_.nodes()[n];
    Flight flight{.node = n};
    for (const ValueId input : node.inputs) flight.reads.push_back(range_of(input));
    if (node.row_count != kNoValue) flight.reads.push_back(range_of(node.row_count));
    for (const ValueId output : node.outputs) flight.writes.push_back(range_of(output));
    flight.writes.push_back(scratch_of(n));
    return flight;
  }

  // Nodes that may run at the same time must not write what the other reads or writes.
  void check_flights(std::size_t n, const std::string& label) const {
    if (flights_.empty()) return;
    const Flight now = touched(n);
    const auto meet = [](const std::vector<Range>& some, const std::vector<Range>& others) {
      return std::ranges::any_of(some, [&](const Range& one) {
        return std::ranges::any_of(others, [&](const Range& other) { return one.meets(other); });
      });
    };
    for (const Flight& flight : flights_) {
      const bool disturbs = meet(now.writes, flight.reads) || meet(now.writes, flight.writes);
      require(!disturbs && !meet(now.reads, flight.writes), [&] {
        return fmt::format("{}: it meets the bytes of node {} '{}', which has forked and is joined before node {}", label,
                           flight.node, graph_.nodes()[flight.node].name, flight.join);
      });
    }
  }

  // Returns how the node may place this output on this input, if at all.
  static std::optional<Alias::Kind> alias_of(const std::vector<Alias>& aliases, std::size_t output, std::size_t input) {
    for (const Alias& alias : aliases) {
      if (alias.output == output && alias.input == input) return alias.kind;
    }
    return std::nullopt;
  }

  void run(std::size_t n) {
    const Node& node = graph_.nodes()[n];
    const std::string label = fmt::format("node {} '{}' ({})", n, node.name, op_name(node.op));
    std::vector<ValueId> inputs = node.inputs;
    if (node.row_count != kNoValue) inputs.push_back(node.row_count);  // no alias refers to it
    for (const ValueId input : inputs) check_whole(input, label);
    check_flights(n, label);

    const std::vector<Alias> aliases = op_aliases(node.op, node.inputs.size());
    const Range scratch = scratch_of(n);
    if (scratch.begin < scratch.end) {
      require(scratch.begin % kAlignmentBytes == 0,
              [&] { return fmt::format("{}: the scratch is not aligned", label); });
      require(scratch.begin >= plan_.persistent_bytes && scratch.end <= plan_.arena_bytes(),
              [&] { return fmt::format("{}: the scratch leaves its part of the arena", label); });
      for (const ValueId input : inputs) {
        require(!scratch.meets(range_of(input)),
                [&] { return fmt::format("{}: the scratch lies on the input '{}'", label, graph_.value(input).name); });
      }
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) check_output(label, node, inputs, aliases, o, scratch);

    memory_.write(scratch, kScratch);
    for (const ValueId output : node.outputs) memory_.write(range_of(output), output);
    for (const Alias& alias : aliases) {
      if (alias.kind != Alias::Kind::kMust) continue;
      for (auto& [source, now] : persistent_) {
        if (now == node.inputs[alias.input]) now = node.outputs[alias.output];
      }
    }
  }

  void check_output(const std::string& label, const Node& node, const std::vector<ValueId>& inputs,
                    const std::vector<Alias>& aliases, std::size_t o, const Range& scratch) const {
    const Range output = range_of(node.outputs[o]);
    const std::string& name = graph_.value(node.outputs[o]).name;
    require(!output.meets(scratch),
            [&] { return fmt::format("{}: the output '{}' lies on the scratch", label, name); });
    for (std::size_t other = 0; other < o; ++other) {
      require(!output.meets(range_of(node.outputs[other])),
              [&] { return fmt::format("{}: two outputs overlap at '{}'", label, name); });
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Range input = range_of(inputs[i]);
      const auto kind = alias_of(aliases, o, i);
      const bool same = output.begin == input.begin && output.end == input.end;
      require(kind != Alias::Kind::kMust || same,
              [&] { return fmt::format("{}: the output '{}' does not take its input's bytes", label, name); });
      require(!output.meets(input) || (kind && same), [&] {
        return fmt::format("{}: the output '{}' lies on the input '{}'", label, name, graph_.value(inputs[i]).name);
      });
    }
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  std::span<const std::size_t> scratch_bytes_;
  OwnedMemory memory_;
  std::vector<Flight> flights_;
  std::map<ValueId, ValueId> persistent_;  // parameter or state before the step -> the value that holds it now
};

}  // namespace

void validate_plan(const Graph& graph, const MemoryPlan& plan, std::span<const std::size_t> scratch_bytes) {
  Player(graph, plan, scratch_bytes).play();
}

}  // namespace plimsoll
