#include "transform/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/lower_case.h"
#include "graph/build.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

class Accumulator {
 public:
  Accumulator(const Graph& graph, std::int64_t row_capacity, const Gradients& gradients)
      : rewriter_(graph), graph_(graph), row_capacity_(row_capacity), gradients_(gradients) {}

  Graph run(Gradients& sums) {
    rewriter_.copy_sources();
    keep_ = rewriter_.graph().add_input(kKeepGradientsInput, {DType::kI32, {1}});
    for (const auto& [parameter, gradient] : gradients_) {
      for (const ValueId part : {gradient.dense, gradient.rows}) {
        if (part == kNoValue) continue;
        const ValueId begun = begin_of(part);
        parameters_of_.emplace(begun, parameter);
        if (begun != part) grown_.emplace(part, parameter);
      }
    }
    for (const Node& node : graph_.nodes()) copy(node);
    check(sums_.size() == gradients_.size(), "gradients to be summed are made by nodes");
    rewriter_.copy_outputs();
    sums = std::move(sums_);
    return rewriter_.take();
  }

 private:
  // The head begins a tied table's gradient, and the look-up's is added to it.
  ValueId begin_of(ValueId gradient) const {
    const NodeId producer = graph_.value(gradient).producer;
    if (producer == kNoNode || graph_.node(producer).op != Op::kEmbeddingGrad) return gradient;
    const std::vector<ValueId>& inputs = graph_.node(producer).inputs;
    return inputs.size() == 3 ? inputs[2] : gradient;
  }

  void copy(const Node& node) {
    if (node.op == Op::kLinearWeightGrad && node.inputs.size() == 2 && parameters_of_.count(node.outputs[0]) == 1) {
      const ValueId parameter = parameters_of_.find(node.outputs[0])->second;
      const ValueId sum = sum_state(parameter, graph_.type(node.outputs[0]));
      rewriter_.copy_node(node, {rewriter_.mapped(node.inputs[0]), rewriter_.mapped(node.inputs[1]), sum, keep_});
      sums_[rewriter_.mapped(parameter)] = {.dense = rewriter_.mapped(node.outputs[0])};
      return;
    }
    rewriter_.copy_node(node);
    for (const ValueId output : node.outputs) {
      if (const auto grown = grown_.find(output); grown != grown_.end()) {
        sums_[rewriter_.mapped(grown->second)] = {.dense = rewriter_.mapped(output)};
      }
      const auto [first, last] = parameters_of_.equal_range(output);
      for (auto owner = first; owner != last; ++owner) {
        if (gradients_.at(owner->second).by_rows()) {
          sum_rows(owner->second, gradients_.at(owner->second));
        } else {
          sum_dense(owner->second, output);
        }
      }
    }
  }

  const std::string& parameter_name(ValueId parameter) const { return graph_.value(parameter).name; }

  ValueId sum_state(ValueId parameter, const TensorType& type) {
    return rewriter_.graph().add_state(gradient_state_name(parameter_name(parameter)), type);
  }

  void sum_dense(ValueId parameter, ValueId gradient) {
    Graph& graph = rewriter_.graph();
    const ValueId sum =
        add_single(graph, {.op = Op::kAccumulate,
                           .name = parameter_name(parameter) + ".accumulate",
                           .inputs = {sum_state(parameter, graph_.type(gradient)), rewriter_.mapped(gradient), keep_},
                           .phase = Phase::kBackward});
    sums_[rewriter_.mapped(parameter)] = {.dense = sum};
  }

  void sum_rows(ValueId parameter, const Gradient& gradient) {
    Graph& graph = rewriter_.graph();
    const std::string& name = parameter_name(parameter);
    const TensorType rows = graph_.type(gradient.rows);
    const std::int64_t capacity = std::min(row_capacity_, graph_.type(parameter).shape[0]);
    const ValueId ids = graph.add_state(name + ".gradient_ids", {DType::kI32, {capacity}});
    const ValueId count = graph.add_state(name + ".gradient_count", {DType::kI32, {1}});
    const ValueId sums = graph.add_state(name + ".gradient_rows", {rows.dtype, {capacity, rows.shape[1]}});
    const auto outputs =
        graph.add_node({.op = Op::kMergeRowGrads,
                        .name = name + ".merge",
                        .inputs = {ids, count, sums, rewriter_.mapped(gradient.row_ids),
                                   rewriter_.mapped(gradient.row_count), rewriter_.mapped(gradient.rows), keep_},
                        .phase = Phase::kBackward});
    sums_[rewriter_.mapped(parameter)] = {.row_ids = outputs[0], .row_count = outputs[1], .rows = outputs[2]};
  }

  Rewriter rewriter_;
  const Graph& graph_;
  std::int64_t row_capacity_;
  const Gradients& gradients_;
  ValueId keep_ = kNoValue;
  // Gradient -> parameter in the old graph; parameters that are only added to each other share a gradient.
  std::multimap<ValueId, ValueId> parameters_of_;
  std::map<ValueId, ValueId> grown_;  // likewise, for gradients that another node began
  Gradients sums_;
};

// Collects the inputs of a parameter's update up to its gradient and adds its states to the graph.
class UpdateInputs {
 public:
  // `own`: the elements that are updated.
  UpdateInputs(Graph& graph, ValueId parameter, Shards::Range own)
      : inputs{parameter}, graph_(graph), name_(graph.value(parameter).name), shape_(graph.type(parameter).shape) {
    const DType dtype = graph.type(parameter).dtype;
    f_ = dtype == DType::kBF16 ? DType::kF32 : dtype;
    state_shape_ = own.count < shape_.elements() ? Shape{own.count} : shape_;
    if (dtype == DType::kBF16) add(kLowHalfSuffix, {DType::kI16, shape_});
  }

  void add_adamw(bool coded) {
    for (const std::string moment : {".exp_avg", ".exp_avg_sq"}) {
      if (coded) {
        add(moment, {DType::kU8, state_shape_});
        add(moment + ".absmax", {f_, {code_blocks(state_shape_.elements())}});
      } else {
        add(moment, {f_, state_shape_});
      }
    }
  }
  // `factored` is the shape in which the parameter is factored.
  void add_adafactor(const Shape& factored) {
    if (shape_.rank() < 2) return add(".exp_avg_sq", {f_, shape_});
    add(".exp_avg_sq_row", {f_, row_mean_shape(factored)});
    add(".exp_avg_sq_col", {f_, column_mean_shape(factored)});
  }

  std::vector<ValueId> inputs;

 private:
  void add(std::string_view suffix, TensorType type) {
    inputs.push_back(graph_.add_state(fmt::format("{}{}", name_, suffix), type));
  }

  Graph& graph_;
  std::string name_;
  Shape shape_, state_shape_;
  DType f_;
};

// Appends the sums of squares that the gradients' norm is made of. With ranks, each rank sums its own elements, and one
// exchange adds the sums of all ranks.
class SquareSums {
 public:
  SquareSums(Graph& graph, const ParameterFacts& facts) : graph_(graph), shards_(facts.shards) {}

  void add(ValueId parameter, const Gradient& gradient) {
    const std::string& name = graph_.value(parameter).name;
    ValueId values = gradient.by_rows() ? gradient.rows : gradient.dense;
    ValueId rows = gradient.by_rows() ? gradient.row_count : kNoValue;
    if (shards_ != nullptr) {
      const std::int64_t elements = graph_.type(values).shape.elements();
      const bool whole = gradient.by_rows() || elements == graph_.type(parameter).shape.elements();
      // Every rank has the rows of all ranks; the first one counts them.
      const Shards::Range own = gradient.by_rows() ? Shards::Range{0, shards_->rank() == 0 ? elements : 0}
                                : whole            ? shards_->own(name)
                                                   : Shards::Range{0, elements};
      if (own.count < elements) {
        values = add_single(graph_, {.op = Op::kSlice,
                                     .name = name + ".own_gradient",
                                     .attributes = SliceAttributes{.first = own.first, .count = own.count},
                                     .inputs = {values},
                                     .phase = Phase::kUpdate});
        rows = kNoValue;
      }
    }
    parameters_.push_back(parameter);
    sums_.push_back(add_single(graph_, {.op = Op::kSumSquares,
                                        .name = name + ".sum_squares",
                                        .inputs = {values},
                                        .row_count = rows,
                                        .phase = Phase::kUpdate}));
  }

  ValueId of(ValueId parameter) const {
    return sums_[static_cast<std::size_t>(std::ranges::find(parameters_, parameter) - parameters_.begin())];
  }

  const std::vector<ValueId>& over_ranks() {
    if (shards_ == nullptr) return sums_;
    CollectiveAttributes attributes{.rank = shards_->rank(), .ranks = shards_->ranks(), .parts = {}};
    for (const Node& node : graph_.nodes()) {
      if (!is_collective(node.op)) continue;
      attributes.ticket = std::max(attributes.ticket, std::get<CollectiveAttributes>(node.attributes).ticket + 1);
    }
    std::vector<std::int64_t> bounds(static_cast<std::size_t>(shards_->ranks()) + 1, 1);
    bounds.front() = 0;
    for (const ValueId sum : sums_) attributes.parts.push_back({.type = graph_.type(sum), .bounds = bounds});
    for (const Op op : {Op::kAllReduceBegin, Op::kAllReduceEnd}) {
      sums_ = graph_.add_node({.op = op,
                               .name = fmt::format("sum_squares.{}", op_name(op)),
                               .attributes = attributes,
                               .inputs = sums_,
                               .phase = Phase::kUpdate});
    }
    return sums_;
  }

 private:
  Graph& graph_;
  const Shards* shards_;
  std::vector<ValueId> parameters_, sums_;
};

constexpr std::array<std::pair<OptimizerKind, std::string_view>, 3> kOptimizerNames = {
    {{OptimizerKind::kAdamW, "adamw_torch"},
     {OptimizerKind::kAdamW8bit, "adamw_8bit"},
     {OptimizerKind::kAdafactor, "adafactor"}}};

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) { return kOptimizerNames[static_cast<std::size_t>(kind)].second; }

OptimizerKind parse_optimizer(std::string_view name) {
  for (const auto& [kind, known] : kOptimizerNames) {
    if (name == known) return kind;
  }
  throw UsageError({.what = "no such optimizer",
                    .where = "--optim",
                    .found = std::string(name),
                    .allowed = "adamw_torch, adamw_8bit or adafactor",
                    .remedy = "adamw_torch is the exact one, adamw_8bit takes a quarter of its memory"});
}

bool is_optimizer_state(std::string_view name) {
  constexpr std::array<std::string_view, 6> kSuffixes = {".exp_avg",           ".exp_avg_sq",     ".exp_avg.absmax",
                                                         ".exp_avg_sq.absmax", ".exp_avg_sq_row", ".exp_avg_sq_col"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

bool is_coded_state(std::string_view name, const TensorType& type) {
  return type.dtype == DType::kU8 || name.ends_with(".absmax");
}

std::string gradient_state_name(std::string_view parameter) { return std::string(parameter) + ".gradient"; }

Graph accumulate_gradients(const Graph& graph, std::int64_t row_capacity, Gradients& gradients) {
  Gradients sums;
  Graph result = Accumulator(graph, row_capacity, gradients).run(sums);
  gradients = std::move(sums);
  return result;
}

bool decays_by_default(const std::string& parameter) {
  const std::string lower = lower_case(parameter);
  const auto contains = [&](const char* part) { return lower.find(part) != std::string::npos; };
  // Matches "norm" as a whole part of the name, or at the end of a part: (^|[._])norm($|[.]).
  const auto is_norm = [&] {
    for (std::size_t at = lower.find("norm"); at != std::string::npos; at = lower.find("norm", at + 1)) {
      const std::size_t end = at + 4;
      const bool begins = at == 0 || lower[at - 1] == '.' || lower[at - 1] == '_';
      if (begins && (end == lower.size() || lower[end] == '.')) return true;
    }
    return false;
  };
  return !contains("bias") && !contains("layernorm") && !contains("rmsnorm") && !is_norm();
}

double weight_decay_of(const OptimizerOptions& options, const std::string& parameter) {
  const bool decays = options.decays ? options.decays(parameter) : decays_by_default(parameter);
  return decays ? options.adamw.weight_decay : 0;
}

double rate_factor_of(const OptimizerOptions& options, const std::string& parameter) {
  return options.rate_factor ? options.rate_factor(parameter) : 1;
}

ValueId append_optimizer(Graph& graph, const Gradients& gradients, const OptimizerOptions& options,
                         const ParameterFacts& facts) {
  check(!gradients.empty(), "there is something to train");
  check(!options.updates_early || !options.waits_for_norm(), "an early update knows the norm of its own gradient only");
  const ValueId learning_rate = graph.add_input(kLearningRateInput, {DType::kF32, {1}});
  const ValueId step = graph.add_input(kStepInput, {DType::kI32, {1}});
  std::vector<ValueId> norm_inputs = {graph.add_input(kMaxGradNormInput, {DType::kF32, {1}})};
  if (options.unscales) norm_inputs.push_back(graph.add_input(kUnscaleInput, {DType::kF32, {1}}));
  SquareSums squares(graph, facts);
  for (const auto& [parameter, gradient] : gradients) squares.add(parameter, gradient);
  for (const ValueId sum : squares.over_ranks()) norm_inputs.push_back(sum);
  const std::vector<ValueId> norm = graph.add_node({.op = Op::kGradientNorm,
                                                    .name = "gradient_norm",
                                                    .attributes = GradientNormAttributes{options.unscales},
                                                    .inputs = norm_inputs,
                                                    .phase = Phase::kUpdate});
  for (const auto& [parameter, gradient] : gradients) {
    const std::string name = graph.value(parameter).name;
    const ValueId scale = !options.updates_early
                              ? norm[1]
                              : graph.add_node({.op = Op::kGradientNorm,
                                                .name = name + ".norm",
                                                .attributes = GradientNormAttributes{},
                                                .inputs = {norm_inputs.front(), squares.of(parameter)},
                                                .phase = Phase::kUpdate})[1];
    const double decay = weight_decay_of(options, name), rate_factor = rate_factor_of(options, name);
    const bool factored = options.kind == OptimizerKind::kAdafactor;
    const std::int64_t elements = graph.type(parameter).shape.elements();
    const Shards::Range own = facts.updates_shards ? facts.shards->own(name) : Shards::Range{0, elements};
    if (own.count == 0 && elements > 0) continue;  // another rank owns it
    UpdateInputs parts(graph, parameter, own);
    Node update{.name = update_name(name), .inputs = {}, .phase = Phase::kUpdate};
    if (factored) {
      update.op = gradient.by_rows() ? Op::kAdafactorRows : Op::kAdafactor;
      update.attributes = AdafactorAttributes{.weight_decay = decay, .rate_factor = rate_factor};
      const bool own_shape = gradient.by_rows() || !facts.factored_shape;
      parts.add_adafactor(own_shape ? graph.type(parameter).shape : facts.factored_shape(name));
    } else {
      AdamWAttributes attributes = options.adamw;
      attributes.weight_decay = decay;
      attributes.rate_factor = rate_factor;
      if (own.count < elements) {
        attributes.first = own.first;
        attributes.count = own.count;
        const bool has_all = gradient.by_rows() || graph.type(gradient.dense).shape.elements() == elements;
        attributes.gradient_first = has_all ? 0 : own.first;
      }
      update.op = gradient.by_rows() ? Op::kAdamWRows : Op::kAdamW;
      update.attributes = attributes;
      const bool takes_codes = facts.takes_codes ? facts.takes_codes(name) : elements >= options.coded_from;
      parts.add_adamw(options.kind == OptimizerKind::kAdamW8bit && takes_codes);
    }
    update.inputs = std::move(parts.inputs);
    if (gradient.by_rows()) {
      update.inputs.insert(update.inputs.end(), {gradient.row_ids, gradient.row_count, gradient.rows});
    } else {
      update.inputs.push_back(gradient.dense);
    }
    update.inputs.insert(update.inputs.end(), {learning_rate, step, scale});
    graph.add_node(std::move(update));
  }
  graph.mark_output(norm[0]);
  return norm[0];
}

}  // namespace plimsoll
