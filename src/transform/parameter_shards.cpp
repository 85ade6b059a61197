#include "transform/parameter_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/update_form.h"
#include "transform/optimizer.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

class ParameterSharder {
 public:
  ParameterSharder(const Graph& graph, const Shards& shards, const RankOptions& options)
      : graph_(graph), shards_(shards), options_(options), rewriter_(graph) {}

  Graph run() {
    find_buckets();
    copy_sources();
    for (Lookup& lookup : lookups_) {
      if (asks_at_once(lookup)) ask(lookup);
    }
    std::size_t next = 0;  // the bucket that begins next
    if (!buckets_.empty()) begin(buckets_[next++]);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      for (std::size_t b = 0; b < next; ++b) {
        if (buckets_[b].first_use != n) continue;
        end(buckets_[b]);
        if (next < buckets_.size()) begin(buckets_[next++]);
      }
      const auto lookup = std::ranges::find(lookups_, n, &Lookup::node);
      if (lookup == lookups_.end()) {
        copy(graph_.nodes()[n]);
      } else {
        look_up(*lookup);
      }
    }
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  struct Bucket {
    std::size_t first_use = 0;          // the node before which it must have arrived
    std::vector<ValueId> parameters{};  // of the old graph
    std::vector<ValueId> on_their_way{};
    CollectiveAttributes attributes{};
    std::size_t bytes = 0;
    Phase phase = Phase::kForward;
  };

  // An embedding that fetches only the rows that it needs, not the whole table.
  struct Lookup {
    std::size_t node = 0;
    std::int64_t ids_ticket = 0, rows_ticket = 0;
    std::vector<ValueId> asked{};  // of the new graph: all ranks' ids, and their counts, on their way
  };

  const Node& node_of(const Lookup& lookup) const { return graph_.nodes()[lookup.node]; }

  // Rows are fetched where all ranks together ask for fewer than the table has: then the data and the buffer that they
  // are sent from are smaller than the table. Tables in codes are fetched whole, because a row of codes is not a row of
  // numbers.
  bool fetches_rows(const Node& node) const {
    if (node.op != Op::kEmbedding || !is_sharded(node.inputs[0])) return false;
    const TensorType& table = graph_.type(node.inputs[0]);
    return is_floating(table.dtype) && options_.ranks * graph_.type(node.inputs[1]).shape.elements() < table.shape[0];
  }

  bool is_sharded(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.role == Role::kParameter && value.producer == kNoNode && shards_.divides(value.name);
  }

  // Parameters are in the order of their first uses in forward, and again in backward. A bucket ends with its last
  // first use.
  void find_buckets() {
    std::int64_t ticket = 1;
    for (const Node& node : graph_.nodes()) {
      if (is_collective(node.op)) ticket = std::max(ticket, std::get<CollectiveAttributes>(node.attributes).ticket + 1);
    }
    std::set<std::pair<Phase, ValueId>> seen;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (is_parameter_update(node.op)) continue;
      if (fetches_rows(node)) {
        lookups_.push_back({.node = n, .ids_ticket = ticket, .rows_ticket = ticket + 1});
        ticket += 2;
        continue;
      }
      for (const ValueId input : node.inputs) {
        if (!is_sharded(input) || !seen.insert({node.phase, input}).second) continue;
        const Value& value = graph_.value(input);
        const bool full =
            buckets_.empty() || buckets_.back().bytes >= options_.bucket_bytes || buckets_.back().phase != node.phase;
        if (full) {
          buckets_.push_back({.first_use = n, .attributes = attributes(ticket++), .phase = node.phase});
        }
        Bucket& bucket = buckets_.back();
        bucket.parameters.push_back(input);
        bucket.attributes.parts.push_back({.type = value.type, .bounds = shards_.bounds(value.name)});
        bucket.bytes += value.type.bytes();
      }
    }
  }

  void copy_sources() {
    const auto owner_of = [](const std::string& name) {
      return name.ends_with(kLowHalfSuffix) ? name.substr(0, name.size() - kLowHalfSuffix.size()) : name;
    };
    const auto skips = [&](ValueId source) {
      const Value& value = graph_.value(source);
      return is_persistent(value.role) && (value.role == Role::kParameter || value.name.ends_with(kLowHalfSuffix)) &&
             shards_.divides(owner_of(value.name));
    };
    for (ValueId v = 0; v < static_cast<ValueId>(graph_.values().size()); ++v) {
      const Value& value = graph_.value(v);
      if (value.producer != kNoNode || !skips(v)) continue;
      const TensorType type = shard_type(value.type, shards_.own(owner_of(value.name)));
      Graph& to = rewriter_.graph();
      const ValueId shard =
          value.role == Role::kParameter ? to.add_parameter(value.name, type) : to.add_state(value.name, type);
      shard_of_[v] = shard;
      rewriter_.map(v, shard);
    }
    rewriter_.copy_sources(skips);
  }

  std::vector<ValueId> add(Op op, const Bucket& bucket, std::vector<ValueId> inputs) {
    const std::string& first = graph_.value(bucket.parameters.front()).name;
    return rewriter_.graph().add_node(
        {.op = op,
         .name = fmt::format("{}.{}{}", first, op_name(op), bucket.phase == Phase::kForward ? "" : ".again"),
         .attributes = bucket.attributes,
         .inputs = std::move(inputs),
         .phase = bucket.phase});
  }

  CollectiveAttributes attributes(std::int64_t ticket) const {
    return {.ticket = ticket, .rank = options_.rank, .ranks = options_.ranks, .parts = {}};
  }

  bool asks_at_once(const Lookup& lookup) const {
    const Node& node = node_of(lookup);
    const auto is_source = [&](ValueId id) { return id == kNoValue || graph_.value(id).producer == kNoNode; };
    return node.phase == Phase::kForward && is_source(node.inputs[1]) && is_source(node.row_count);
  }

  void ask(Lookup& lookup) {
    const Node& node = node_of(lookup);
    CollectiveAttributes all = attributes(lookup.ids_ticket);
    std::vector<ValueId> own;
    for (const ValueId value : {node.inputs[1], node.row_count}) {
      if (value == kNoValue) continue;
      const std::int64_t each = graph_.type(value).shape.elements();
      auto& part = all.parts.emplace_back();
      part.type = {DType::kI32, {options_.ranks * each}};
      for (int r = 0; r <= options_.ranks; ++r) part.bounds.push_back(r * each);
      own.push_back(rewriter_.mapped(value));
    }
    lookup.asked = rewriter_.graph().add_node({.op = Op::kGatherShardsBegin,
                                               .name = node.name + ".ids.gather_shards_begin",
                                               .attributes = std::move(all),
                                               .inputs = std::move(own),
                                               .phase = node.phase});
  }

  void look_up(Lookup& lookup) {
    if (lookup.asked.empty()) ask(lookup);
    const Node& node = node_of(lookup);
    Graph& to = rewriter_.graph();
    const ValueId table = node.inputs[0];
    const Node& asked = to.node(to.value(lookup.asked[0]).producer);
    std::vector<ValueId> inputs = to.add_node({.op = Op::kAllGatherEnd,
                                               .name = node.name + ".ids.all_gather_end",
                                               .attributes = asked.attributes,
                                               .inputs = lookup.asked,
                                               .phase = node.phase});
    inputs.insert(inputs.begin(), shard_of_.at(table));
    CollectiveAttributes of_rows = attributes(lookup.rows_ticket);
    of_rows.parts.push_back({.type = graph_.type(table), .bounds = shards_.bounds(graph_.value(table).name)});
    const auto add_rows = [&](Op op, std::vector<ValueId> from) {
      return to.add_node({.op = op,
                          .name = fmt::format("{}.{}", node.name, op_name(op)),
                          .attributes = of_rows,
                          .inputs = std::move(from),
                          .phase = node.phase});
    };
    const std::vector<ValueId> begun = add_rows(Op::kAllToAllRowsBegin, std::move(inputs));
    const std::vector<ValueId> rows = add_rows(Op::kAllToAllRowsEnd, {begun[0], begun[2]});
    rewriter_.copy_node(node, {rows[0], begun[1]});
  }

  void begin(Bucket& bucket) {
    std::vector<ValueId> own;
    for (const ValueId parameter : bucket.parameters) own.push_back(shard_of_.at(parameter));
    bucket.on_their_way = add(Op::kGatherShardsBegin, bucket, std::move(own));
  }

  void end(const Bucket& bucket) {
    const std::vector<ValueId> whole = add(Op::kAllGatherEnd, bucket, bucket.on_their_way);
    for (std::size_t i = 0; i < whole.size(); ++i) rewriter_.map(bucket.parameters[i], whole[i]);
  }

  void copy(const Node& node) {
    if (!is_parameter_update(node.op) || !shards_.divides(graph_.value(node.inputs[0]).name)) {
      return rewriter_.copy_node(node);
    }
    const UpdateForm form = update_form(graph_, node);
    Node update = node;
    auto attributes = std::get<AdamWAttributes>(node.attributes);
    attributes.parameter_first = shards_.own(graph_.value(node.inputs[0]).name).first;
    update.attributes = attributes;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(i < form.parameter_parts ? shard_of_.at(node.inputs[i]) : rewriter_.mapped(node.inputs[i]));
    }
    rewriter_.copy_node(update, std::move(inputs));
  }

  const Graph& graph_;
  const Shards& shards_;
  const RankOptions& options_;
  Rewriter rewriter_;
  std::vector<Bucket> buckets_;
  std::vector<Lookup> lookups_;
  std::map<ValueId, ValueId> shard_of_;  // source of the old graph -> of the new one
};

}  // namespace

TensorType shard_type(const TensorType& whole, const Shards::Range& range) {
  std::vector<std::int64_t> dims(whole.shape.dims().begin(), whole.shape.dims().end());
  if (dims.size() < 2) return {whole.dtype, {range.count}};
  const std::int64_t row = whole.shape.elements() / dims[0];
  check(range.count % row == 0, "a parameter is divided between its rows");
  dims[0] = range.count / row;
  return {whole.dtype, Shape(std::span<const std::int64_t>(dims))};
}

Graph shard_parameters(const Graph& graph, const Shards& shards, const RankOptions& options) {
  return ParameterSharder(graph, shards, options).run();
}

}  // namespace plimsoll
