// The shape rules and the facts of the ops that end a forward graph, and of those that compute something else from
// logits.
#include "graph/op_facts.h"
#include "graph/op_work.h"
#include "graph/shape_rule.h"

namespace plimsoll {
namespace {

Types label_scores_types(const ShapeRule& rule) {
  rule.inputs(2);
  const TensorType& logits = rule.floating(0, 2);
  rule.expect(1, i32({logits.shape[0]}));
  return {{wide(logits.dtype), {logits.shape[0], 2}}};
}

Types softmax_sums_types(const ShapeRule& rule) {
  rule.inputs(1);
  const TensorType& logits = rule.floating(0, 2);
  return {{wide(logits.dtype), {logits.shape[0], 2}}};
}

Types cross_entropy_part_types(const ShapeRule& rule) {
  rule.inputs(4);
  const TensorType& logits = rule.floating(0, 2);
  rule.expect(1, i32({logits.shape[0]}));
  rule.expect(2, {wide(logits.dtype), {logits.shape[0], 2}});
  rule.expect(3, {wide(logits.dtype), {1}});
  rule.require(rule.attributes<ClassPartAttributes>().first >= 0, "begins with a class");
  return {logits};
}

Types cross_entropy_types(const ShapeRule& rule) {
  rule.inputs(3, 4);
  const TensorType& logits = rule.floating(0, 2);
  rule.expect(1, i32({logits.shape[0]}));
  rule.floating(2, 1);
  rule.require(rule.dim(2, 0) == 1, "loss_scale is f[1]");
  if (rule.count() == 4) rule.expect(3, {rule.in(2).dtype, {logits.shape[1]}});
  const auto& attributes = rule.attributes<CrossEntropyAttributes>();
  rule.require(attributes.label_smoothing >= 0 && attributes.label_smoothing < 1 && attributes.focal_gamma >= 0 &&
                   (attributes.label_smoothing == 0 || attributes.focal_gamma == 0),
               "labels are smoothed, or hard ones weigh more, and not both");
  return {rule.in(2), logits};
}

Types element_loss_types(const ShapeRule& rule) {
  rule.inputs(3);
  rule.attributes<ElementLossAttributes>();
  const TensorType& logits = rule.floating(0, 2);
  rule.expect(1, logits);
  rule.floating(2, 1);
  rule.require(rule.dim(2, 0) == 1, "loss_scale is f[1]");
  return {rule.in(2), logits};
}

Types span_cross_entropy_types(const ShapeRule& rule) {
  rule.inputs(4);
  const TensorType& logits = rule.floating(0, 2);
  const std::int64_t samples = rule.dim(1, 0);
  rule.expect(1, i32({samples, logits.shape[1]}));
  rule.expect(2, i32({samples + 1}));
  rule.floating(3, 1);
  rule.require(rule.dim(3, 0) == 1, "loss_scale is f[1]");
  return {rule.in(3), logits};
}

Types soft_cross_entropy_types(const ShapeRule& rule) {
  rule.inputs(4);
  const TensorType& logits = rule.floating(0, 2);
  rule.expect(1, logits);
  rule.expect(2, i32({logits.shape[0]}));
  rule.floating(3, 1);
  rule.require(rule.dim(3, 0) == 1, "loss_scale is f[1]");
  rule.require(rule.attributes<SoftTargetAttributes>().temperature > 0, "has a temperature above 0");
  return {rule.in(3), logits};
}

Types relation_loss_types(const ShapeRule& rule) {
  rule.inputs(4);
  const TensorType& x = rule.floating(0, 2);
  const TensorType& teacher = rule.floating(1, 2);
  const std::int64_t heads = rule.attributes<RelationAttributes>().heads;
  rule.require(teacher.dtype == x.dtype && teacher.shape[0] == x.shape[0], "x and teacher share dtype and rows");
  rule.require(heads > 0 && x.shape[1] % heads == 0 && teacher.shape[1] % heads == 0,
               "splits D and E into whole heads");
  rule.expect(2, i32({rule.dim(2, 0)}));
  rule.floating(3, 1);
  rule.require(rule.dim(3, 0) == 1, "loss_scale is f[1]");
  return {rule.in(3), x};
}

Types contrastive_loss_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, i32({x.shape[0]}));
  rule.floating(2, 1);
  rule.require(rule.dim(2, 0) == 1, "loss_scale is f[1]");
  rule.require(rule.attributes<ContrastiveAttributes>().temperature >= 0.01,
               "a temperature is at least 0.01, so that no exponential overflows");
  return {rule.in(2), x};
}

Types cached_gradient_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& x = rule.floating(0, 2);
  rule.expect(1, {x.dtype, {rule.dim(1, 0), x.shape[1]}});
  rule.expect(2, i32({1}));
  return {{x.dtype, {1}}, x};
}

IndexRange cross_entropy_indices(const Graph& graph, const Node& node) {
  return {.input = 1, .low = 0, .end = graph.type(node.inputs[0]).shape[1], .ignored = -100};
}

// A loss has all its rows; its gradient, the second output, has the rows of the logits.
constexpr OutputRows kRowsOfGradient = {.first = 1, .count = 1};

constexpr OpFacts kLossRows[] = {
    {.op = Op::kLabelScores,
     .name = "label_scores",
     .types = label_scores_types,
     .work = element_work,
     .takes_halves = true,
     .indices = cross_entropy_indices},
    {.op = Op::kSoftmaxSums,
     .name = "softmax_sums",
     .types = softmax_sums_types,
     .work = element_work,
     .takes_halves = true},
    {.op = Op::kCrossEntropyPart,
     .name = "cross_entropy_part",
     .types = cross_entropy_part_types,
     .work = element_work,
     .aliases = may_take(0, {0}),
     .takes_halves = true},
    {.op = Op::kCrossEntropy,
     .name = "cross_entropy",
     .types = cross_entropy_types,
     .work = element_work,
     .aliases = may_take(1, {0}),  // the gradient in place of the logits
     .takes_halves = true,
     .rows = kRowsOfGradient,
     .indices = cross_entropy_indices},
    {.op = Op::kElementLoss,
     .name = "element_loss",
     .types = element_loss_types,
     .work = element_work,
     .aliases = may_take(1, {0}),
     .rows = kRowsOfGradient},
    {.op = Op::kSpanCrossEntropy,
     .name = "span_cross_entropy",
     .types = span_cross_entropy_types,
     .work = element_work,
     .aliases = may_take(1, {0}),
     .rows = kRowsOfGradient},
    {.op = Op::kSoftCrossEntropy,
     .name = "soft_cross_entropy",
     .types = soft_cross_entropy_types,
     .work = element_work,
     .aliases = may_take(1, {0}),
     .rows = kRowsOfGradient},
    {.op = Op::kRelationLoss,
     .name = "relation_loss",
     .types = relation_loss_types,
     .work = relation_loss_work,
     .priced_like = Op::kAttentionGrad,
     .rows = kRowsOfGradient},
    {.op = Op::kContrastiveLoss,
     .name = "contrastive_loss",
     .types = contrastive_loss_types,
     .work = contrastive_work,
     .priced_like = Op::kLinear,
     .aliases = may_take(1, {0}),
     .rows = kRowsOfGradient},
    {.op = Op::kCachedGradient,
     .name = "cached_gradient",
     .types = cached_gradient_types,
     .work = element_work,
     .aliases = may_take(1, {0}),
     .rows = kRowsOfGradient},
};

}  // namespace

std::span<const OpFacts> loss_ops() { return kLossRows; }

}  // namespace plimsoll
