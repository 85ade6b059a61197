#include "transform/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/build.h"
#include "tensor/dynamic_code.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

std::int64_t next_ticket(const Graph& graph) {
  std::int64_t ticket = 1;
  for (const Node& node : graph.nodes()) {
    if (is_collective(node.op)) ticket = std::max(ticket, std::get<CollectiveAttributes>(node.attributes).ticket + 1);
  }
  return ticket;
}

// Tensors that travel together.
struct Bucket {
  std::vector<ValueId> values;  // of the new graph
  CollectiveAttributes attributes;
  std::size_t bytes = 0;
};

class RankSum {
 public:
  RankSum(const Graph& graph, const Gradients& gradients, const Shards& shards, const RankOptions& options)
      : graph_(graph), gradients_(gradients), shards_(shards), options_(options), rewriter_(graph) {}

  Graph run(Gradients& sums) {
    rewriter_.copy_sources();
    std::set<ValueId> read;
    for (const Node& node : graph_.nodes()) read.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& [parameter, gradient] : gradients_) {
      const ValueId complete = gradient.by_rows() ? gradient.rows : gradient.dense;
      check(!read.contains(complete), [&] {
        return fmt::format("nothing reads the gradient of '{}' before it is summed", graph_.value(parameter).name);
      });
      parameters_of_.emplace(complete, parameter);
    }
    ticket_ = next_ticket(graph_);
    for (const Node& node : graph_.nodes()) {
      rewriter_.copy_node(node);
      for (const ValueId output : node.outputs) {
        if (parameters_of_.count(output) > 0) add(output);
      }
    }
    close();
    end_gather();
    end_reduce();
    end_gather();
    end_rows();
    for (const auto& [complete, parameter] : parameters_of_) {
      sums[rewriter_.mapped(parameter)] = summed_.at(complete);
    }
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  Graph& graph() { return rewriter_.graph(); }
  const std::string& name_of(ValueId complete) const {
    return graph_.value(parameters_of_.find(complete)->second).name;
  }
  CollectiveAttributes attributes() {
    return {.ticket = ticket_++, .rank = options_.rank, .ranks = options_.ranks, .parts = {}};
  }
  std::vector<ValueId> add_node(Op op, const std::string& name, const CollectiveAttributes& attributes,
                                std::vector<ValueId> inputs) {
    return graph().add_node({.op = op,
                             .name = fmt::format("{}.{}", name, op_name(op)),
                             .attributes = attributes,
                             .inputs = std::move(inputs),
                             .phase = Phase::kBackward});
  }

  // A gradient is complete.
  void add(ValueId complete) {
    const ValueId parameter = parameters_of_.find(complete)->second;
    const Gradient& gradient = gradients_.at(parameter);
    if (gradient.by_rows() && !outgrow_table(gradient, parameter)) return begin_rows(complete, gradient);
    const ValueId whole = gradient.by_rows() ? add_table(gradient, parameter) : rewriter_.mapped(complete);
    const TensorType type = graph().type(whole);
    // Tensors of one type travel together.
    if (open_.bytes > 0 && graph().type(open_.values.front()).dtype != type.dtype) close();
    open_.values.push_back(whole);
    open_.attributes.parts.push_back({.type = type, .bounds = shards_.bounds(name_of(complete))});
    open_.bytes += type.bytes();
    open_gradients_.push_back(complete);
    if (open_.bytes >= options_.bucket_bytes) close();
  }

  // Every rank receives the rows of all ranks. If these may be more than the table has, sending and holding the whole
  // table takes less.
  bool outgrow_table(const Gradient& gradient, ValueId parameter) const {
    return options_.ranks * graph_.type(gradient.rows).shape[0] >= graph_.type(parameter).shape[0];
  }

  ValueId add_table(const Gradient& gradient, ValueId parameter) {
    EmbeddingAttributes table;
    table.table_rows = graph_.type(parameter).shape[0];
    return add_single(graph(), {.op = Op::kEmbeddingGrad,
                                .name = graph_.value(parameter).name + ".gradient_table",
                                .attributes = table,
                                .inputs = {rewriter_.mapped(gradient.rows), rewriter_.mapped(gradient.row_ids)},
                                .row_count = rewriter_.mapped(gradient.row_count),
                                .phase = Phase::kBackward});
  }

  // Starts sending the open bucket; the one before it has had the time of one bucket to arrive.
  void close() {
    if (open_.values.empty()) return;
    end_gather();
    end_reduce();
    reducing_ = std::exchange(open_, {});
    reducing_gradients_ = std::exchange(open_gradients_, {});
    std::vector<CollectiveAttributes::Part> parts = std::move(reducing_.attributes.parts);
    reducing_.attributes = attributes();
    reducing_.attributes.parts = std::move(parts);
    name_ = fmt::format("bucket{}", buckets_++);
    reducing_.values = add_node(Op::kReduceScatterBegin, name_, reducing_.attributes, reducing_.values);
  }

  void end_reduce() {
    if (reducing_.values.empty()) return;
    reducing_.values = add_node(Op::kReduceScatterEnd, name_, reducing_.attributes, reducing_.values);
    if (!options_.updates_shards()) {
      gathering_ = std::exchange(reducing_, {});
      gathering_gradients_ = std::exchange(reducing_gradients_, {});
      gathering_.attributes.ticket = ticket_++;
      gathering_.values = add_node(Op::kAllGatherBegin, name_, gathering_.attributes, gathering_.values);
      gathering_name_ = name_;
      return;
    }
    for (std::size_t i = 0; i < reducing_gradients_.size(); ++i) {
      summed_[reducing_gradients_[i]] = {.dense = own_part(reducing_gradients_[i], reducing_.values[i])};
    }
    reducing_ = {};
    reducing_gradients_.clear();
  }

  // From stage 2 on, a rank drops what others own.
  ValueId own_part(ValueId complete, ValueId whole) {
    if (!options_.keeps_gradient_shards()) return whole;
    const Shards::Range own = shards_.own(name_of(complete));
    if (own.count == graph().type(whole).shape.elements()) return whole;
    return add_single(graph(), {.op = Op::kSlice,
                                .name = name_of(complete) + ".gradient_shard",
                                .attributes = SliceAttributes{.first = own.first, .count = own.count},
                                .inputs = {whole},
                                .phase = Phase::kBackward});
  }

  void end_gather() {
    if (gathering_.values.empty()) return;
    gathering_.values = add_node(Op::kAllGatherEnd, gathering_name_, gathering_.attributes, gathering_.values);
    for (std::size_t i = 0; i < gathering_gradients_.size(); ++i) {
      summed_[gathering_gradients_[i]] = {.dense = gathering_.values[i]};
    }
    gathering_ = {};
    gathering_gradients_.clear();
  }

  struct Rows {
    ValueId complete = kNoValue;
    CollectiveAttributes attributes;
    std::vector<ValueId> values;
  };

  void begin_rows(ValueId complete, const Gradient& gradient) {
    Rows rows{.complete = complete, .attributes = attributes(), .values = {}};
    rows.values = add_node(
        Op::kGatherRowsBegin, name_of(complete), rows.attributes,
        {rewriter_.mapped(gradient.row_ids), rewriter_.mapped(gradient.row_count), rewriter_.mapped(gradient.rows)});
    rows_.push_back(std::move(rows));
  }

  // Equal ids of different ranks become one row, their sum in the order of ranks.
  void end_rows() {
    for (const Rows& rows : rows_) {
      const std::vector<ValueId> all =
          add_node(Op::kGatherRowsEnd, name_of(rows.complete), rows.attributes, rows.values);
      EmbeddingAttributes merge;
      merge.row_gradient = true;
      merge.table_rows = graph_.type(parameters_of_.find(rows.complete)->second).shape[0];
      const std::vector<ValueId> merged = graph().add_node({.op = Op::kEmbeddingRowGrad,
                                                            .name = name_of(rows.complete) + ".merge_ranks",
                                                            .attributes = merge,
                                                            .inputs = {all[1], all[0]},
                                                            .row_count = all[2],
                                                            .phase = Phase::kBackward});
      summed_[rows.complete] = {.row_ids = merged[0], .row_count = merged[1], .rows = merged[2]};
    }
  }

  const Graph& graph_;
  const Gradients& gradients_;
  const Shards& shards_;
  const RankOptions& options_;
  Rewriter rewriter_;
  // Complete gradient -> parameters in the old graph; parameters that are only added to each other share one.
  std::multimap<ValueId, ValueId> parameters_of_;
  std::map<ValueId, Gradient> summed_;  // by complete gradient; in the new graph
  Bucket open_, reducing_, gathering_;
  std::vector<ValueId> open_gradients_, reducing_gradients_, gathering_gradients_;  // of the old graph
  std::vector<Rows> rows_;
  std::string name_, gathering_name_;
  std::int64_t ticket_ = 1;
  int buckets_ = 0;
};

}  // namespace

Shards divide_parameters(const Graph& graph, std::span<const ValueId> trained, const RankOptions& options, bool whole) {
  std::vector<ShardedParameter> parameters;
  const auto add = [&](ValueId id, bool trains) {
    const Value& value = graph.value(id);
    const Shape& shape = value.type.shape;
    // Matrices and tables are cut between rows, all that train between the blocks of 8-bit states.
    const std::int64_t row = shape.rank() < 2 || shape[0] == 0 ? 1 : shape.elements() / shape[0];
    const std::int64_t unit = !trains ? row : whole ? shape.elements() : std::lcm(row, kStateBlock);
    parameters.push_back({.name = value.name, .elements = shape.elements(), .unit = std::max<std::int64_t>(1, unit)});
  };
  for (const ValueId id : trained) add(id, true);
  for (std::size_t v = 0; options.keeps_parameter_shards() && v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    const auto id = static_cast<ValueId>(v);
    const bool frozen =
        value.role == Role::kParameter && value.producer == kNoNode && std::ranges::find(trained, id) == trained.end();
    if (frozen && value.type.shape.rank() == 2) add(id, false);
  }
  return Shards(parameters, options.rank, options.ranks);
}

Graph sum_over_ranks(const Graph& graph, Gradients& gradients, const Shards& shards, const RankOptions& options) {
  Gradients sums;
  Graph result = RankSum(graph, gradients, shards, options).run(sums);
  gradients = std::move(sums);
  return result;
}

void gather_parameters(Graph& graph, const Shards& shards, const RankOptions& options) {
  // The value that holds each parameter now: an update takes its parameter's bytes, and its name.
  std::map<std::string, ValueId> now;
  std::vector<std::string> order;
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.role != Role::kParameter || !shards.has(value.name)) continue;
    if (options.keeps_parameter_shards() && shards.divides(value.name)) continue;
    const auto [place, is_new] = now.try_emplace(value.name);
    place->second = static_cast<ValueId>(v);
    if (is_new) order.push_back(value.name);
  }
  std::int64_t ticket = next_ticket(graph);
  std::vector<Bucket> buckets;
  for (const std::string& name : order) {
    const TensorType& type = graph.type(now.at(name));
    if (buckets.empty() || buckets.back().bytes >= options.bucket_bytes) {
      buckets.push_back({.values = {},
                         .attributes = {.ticket = ticket++, .rank = options.rank, .ranks = options.ranks, .parts = {}},
                         .bytes = 0});
    }
    Bucket& bucket = buckets.back();
    bucket.values.push_back(now.at(name));
    bucket.attributes.parts.push_back({.type = type, .bounds = shards.bounds(name)});
    bucket.bytes += type.bytes();
  }
  const auto add = [&](Op op, std::size_t number, const Bucket& bucket) {
    return graph.add_node({.op = op,
                           .name = fmt::format("parameters{}.{}", number, op_name(op)),
                           .attributes = bucket.attributes,
                           .inputs = bucket.values,
                           .phase = Phase::kUpdate});
  };
  for (std::size_t b = 0; b < buckets.size(); ++b) buckets[b].values = add(Op::kAllGatherBegin, b, buckets[b]);
  for (std::size_t b = 0; b < buckets.size(); ++b) add(Op::kAllGatherEnd, b, buckets[b]);
}

}  // namespace plimsoll
