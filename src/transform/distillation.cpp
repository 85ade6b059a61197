#include "transform/distillation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/build.h"
#include "tensor/input_spec.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

std::vector<const Node*> layer_ends(const Graph& graph, const std::set<std::string>& names) {
  std::vector<const Node*> ends;
  for (const Node& node : graph.nodes()) {
    if (node.phase == Phase::kForward && names.contains(node.name)) ends.push_back(&node);
  }
  return ends;
}

const Node* last_attention(const Graph& graph) {
  const Node* last = nullptr;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAttention) last = &node;
  }
  return last;
}

const Node& loss_node(const StudentGraph& student) {
  return student.graph->node(student.graph->value(student.loss).producer);
}

// Returns the teacher's layer that layer `layer` of `count` learns from, counted from 0.
std::size_t mapped_layer(std::size_t layer, std::size_t count, std::size_t teacher_count) {
  return std::max<std::size_t>(1, (layer + 1) * teacher_count / count) - 1;
}

// Returns the largest number of heads that divides both widths and is at most the teacher's attention's.
std::int64_t relation_heads(const Node& teacher, std::int64_t width, std::int64_t teacher_width) {
  std::int64_t heads = std::get<AttentionAttributes>(teacher.attributes).heads;
  while (width % heads != 0 || teacher_width % heads != 0) --heads;
  return heads;
}

// Marks the nodes that `wanted` depends on.
std::vector<bool> needed_nodes(const Graph& graph, std::set<ValueId> wanted) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    needed[n] = std::ranges::any_of(node.outputs, [&](ValueId output) { return wanted.contains(output); });
    if (!needed[n]) continue;
    wanted.insert(node.inputs.begin(), node.inputs.end());
    wanted.insert(node.row_count);
  }
  return needed;
}

// Appends the teacher's needed nodes after the student's sources; returns its values by their old ids.
std::vector<ValueId> copy_teacher(const Graph& teacher, const std::set<ValueId>& wanted, Graph& to) {
  std::vector<ValueId> map(teacher.values().size(), kNoValue);
  const std::vector<bool> needed = needed_nodes(teacher, wanted);
  const auto mapped = [&](ValueId old) {
    if (old == kNoValue) return kNoValue;
    ValueId& now = map[static_cast<std::size_t>(old)];
    if (now != kNoValue) return now;
    const Value& value = teacher.value(old);
    check(value.producer == kNoNode, "a value is copied after the node that makes it");
    if (value.role == Role::kParameter)
      return now = to.add_parameter(std::string(kTeacherPrefix) + value.name, value.type);
    now = to.find_source(value.name);
    check(now != kNoValue && to.type(now) == value.type,
          [&] { return fmt::format("the teacher reads what the student reads; '{}'", value.name); });
    return now;
  };
  for (std::size_t n = 0; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    const Node& node = teacher.nodes()[n];
    check(node.phase == Phase::kForward, "a teacher only computes forward");
    Node copy = node;
    copy.name = std::string(kTeacherPrefix) + node.name;
    for (ValueId& input : copy.inputs) input = mapped(input);
    copy.row_count = mapped(node.row_count);
    const std::vector<ValueId> outputs = to.add_node(std::move(copy));
    for (std::size_t i = 0; i < outputs.size(); ++i) map[static_cast<std::size_t>(node.outputs[i])] = outputs[i];
  }
  return map;
}

// Adds an input for each of these values; returns the inputs by the values' old ids.
std::vector<ValueId> add_teacher_inputs(const Graph& teacher, const std::set<ValueId>& wanted, Graph& to) {
  std::vector<ValueId> map(teacher.values().size(), kNoValue);
  for (const ValueId id : wanted) {
    const Value& value = teacher.value(id);
    map[static_cast<std::size_t>(id)] = to.add_input(std::string(kTeacherPrefix) + value.name, value.type);
  }
  return map;
}

}  // namespace

std::set<ValueId> compared_values(const StudentGraph& student, const TeacherGraph& teacher,
                                  const DistillationOptions& options) {
  std::set<ValueId> wanted;
  if (options.logits > 0) wanted.insert(teacher.logits);
  if (options.hidden > 0) {
    const auto ends = layer_ends(*teacher.graph, teacher.layers);
    const std::size_t count = layer_ends(*student.graph, student.layers).size();
    for (std::size_t layer = 0; layer < count; ++layer) {
      wanted.insert(ends[mapped_layer(layer, count, ends.size())]->outputs[0]);
    }
  }
  if (options.relations > 0) {
    const Node& attention = *last_attention(*teacher.graph);
    wanted.insert(attention.inputs.begin(), attention.inputs.begin() + 3);
  }
  return wanted;
}

std::string distillation_fault(const StudentGraph& student, const TeacherGraph& teacher,
                               const DistillationOptions& options) {
  const Node& loss = loss_node(student);
  if (options.logits > 0) {
    if (loss.op != Op::kCrossEntropy) return "the task's loss is no cross-entropy over classes";
    if (!(student.graph->type(loss.inputs[0]) == teacher.graph->type(teacher.logits))) {
      return "the two predict different numbers of classes";
    }
  }
  const auto ends = layer_ends(*student.graph, student.layers);
  const auto teacher_ends = layer_ends(*teacher.graph, teacher.layers);
  if (options.hidden > 0) {
    if (ends.empty() || teacher_ends.empty()) return "one of the two has no layers";
    const std::int64_t width = student.graph->type(ends.front()->outputs[0]).shape[1];
    const std::int64_t other = teacher.graph->type(teacher_ends.front()->outputs[0]).shape[1];
    if (width != other) return fmt::format("the states have {} and {} columns", width, other);
  }
  if (options.relations > 0 &&
      (last_attention(*student.graph) == nullptr || last_attention(*teacher.graph) == nullptr)) {
    return "one of the two has no attention";
  }
  return {};
}

Distilled distil(const StudentGraph& student, const TeacherGraph& teacher, const DistillationOptions& options,
                 TeacherValues values) {
  check(distillation_fault(student, teacher, options).empty(), "the two can be compared");
  Rewriter rewriter(*student.graph);
  rewriter.copy_sources();
  Graph& graph = rewriter.graph();
  const std::set<ValueId> compared = compared_values(student, teacher, options);
  const std::vector<ValueId> of_teacher = values == TeacherValues::kInputs
                                              ? add_teacher_inputs(*teacher.graph, compared, graph)
                                              : copy_teacher(*teacher.graph, compared, graph);
  const auto taught = [&](ValueId old) { return of_teacher.at(static_cast<std::size_t>(old)); };
  const Node& own = loss_node(student);
  Distilled result;
  const auto mapped_rows = [&](const Node& node) {
    return node.row_count == kNoValue ? kNoValue : rewriter.mapped(node.row_count);
  };
  const ValueId loss_scale = rewriter.mapped(student.graph->find_source(input::kLossScale));
  const ValueId row_scale = options.hidden > 0 || options.relations > 0
                                ? graph.add_input(std::string(kRowLossScaleInput), graph.type(loss_scale))
                                : kNoValue;
  const bool weighs = student.graph->find_source(input::kClassWeights) != kNoValue;
  const ValueId label_scale = options.logits > 0 && weighs
                                  ? graph.add_input(std::string(kLabelLossScaleInput), graph.type(loss_scale))
                                  : loss_scale;
  const auto add_loss = [&](Node node) { result.losses.push_back(graph.add_node(std::move(node))[0]); };
  // Halves are compared in F32.
  const auto wide_pair = [&](const std::string& name, ValueId a, ValueId b, ValueId rows) {
    const DType type = wide(graph.type(a).dtype);
    return std::array<ValueId, 2>{cast(graph, name + ".student", a, type, rows),
                                  cast(graph, name + ".teacher", b, type, rows)};
  };
  const auto ends = layer_ends(*student.graph, student.layers);
  const auto teacher_ends = layer_ends(*teacher.graph, teacher.layers);
  const auto add_hidden_loss = [&](std::size_t layer) {
    const Node& end = *ends[layer];
    const ValueId from = taught(teacher_ends[mapped_layer(layer, ends.size(), teacher_ends.size())]->outputs[0]);
    const std::string name = fmt::format("distillation.hidden.{}", layer);
    const auto [a, b] = wide_pair(name, rewriter.mapped(end.outputs[0]), from, mapped_rows(end));
    const double terms = static_cast<double>(graph.type(a).shape[1]) * static_cast<double>(ends.size());
    add_loss({.op = Op::kElementLoss,
              .name = name,
              .attributes = ElementLossAttributes{.kind = ElementLossAttributes::Kind::kSquaredError,
                                                  .weight = options.hidden / terms},
              .inputs = {a, b, row_scale},
              .row_count = mapped_rows(end)});
  };
  std::size_t layer = 0;
  for (const Node& node : student.graph->nodes()) {
    rewriter.copy_node(node);
    if (layer == ends.size() || &node != ends[layer]) continue;
    // The teacher's states of the layer die here.
    if (options.hidden > 0) add_hidden_loss(layer);
    ++layer;
  }
  rewriter.copy_outputs();
  result.losses.push_back(rewriter.mapped(student.loss));
  if (options.logits > 0) {
    add_loss({.op = Op::kSoftCrossEntropy,
              .name = "distillation.logits",
              .attributes = SoftTargetAttributes{options.temperature, options.logits},
              .inputs = {rewriter.mapped(own.inputs[0]), taught(teacher.logits), rewriter.mapped(own.inputs[1]),
                         label_scale},
              .row_count = mapped_rows(own)});
  }
  if (options.relations > 0) {
    const Node &attention = *last_attention(*student.graph), &other = *last_attention(*teacher.graph);
    const ValueId rows = mapped_rows(attention);
    static constexpr std::array<const char*, 3> kNames = {"query", "key", "value"};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const std::string name = fmt::format("distillation.{}", kNames[i]);
      const auto [a, b] = wide_pair(name, rewriter.mapped(attention.inputs[i]), taught(other.inputs[i]), rows);
      add_loss(
          {.op = Op::kRelationLoss,
           .name = name,
           .attributes =
               RelationAttributes{.heads = relation_heads(other, graph.type(a).shape[1], graph.type(b).shape[1]),
                                  .weight = options.relations / static_cast<double>(kNames.size()),
                                  .longest_sample = std::get<AttentionAttributes>(attention.attributes).longest_sample},
           .inputs = {a, b, rewriter.mapped(attention.inputs[3]), row_scale},
           .row_count = rows});
    }
  }
  result.loss = result.losses.front();
  for (std::size_t i = 1; i < result.losses.size(); ++i) {
    result.loss = add(graph, fmt::format("distillation.sum.{}", i), result.loss, result.losses[i], kNoValue);
  }
  graph.mark_output(result.loss);
  for (const ValueId parameter : student.trained) result.trained.push_back(rewriter.mapped(parameter));
  result.graph = rewriter.take();
  return result;
}

}  // namespace plimsoll
