#include "transform/head_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/build.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"
#include "transform/chunked_loss.h"
#include "transform/readers.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

using Reading = std::vector<std::vector<NodeId>>;  // the nodes that read each value

// The nodes of a head that is updated in parts. Those from weight_grad on are replaced.
struct HeadUpdate {
  NodeId product = kNoNode, loss = kNoNode;
  NodeId weight_grad = kNoNode, embedding_grad = kNoNode;  // the latter of a tied table alone
  NodeId sum = kNoNode, norm = kNoNode, update = kNoNode;
  std::int64_t part_rows = 0;  // of the weight, in a part
};

// Returns a number of rows with which every part begins with a block of moments, whatever a row's width is.
std::int64_t rows_of_part(std::int64_t rows, std::int64_t parts) {
  return (rows + parts * kStateBlock - 1) / (parts * kStateBlock) * kStateBlock;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}

  std::optional<HeadUpdate> find(NodeId n, std::int64_t parts) const {
    const Node& update = graph_.node(n);
    if (update.op != Op::kAdamW || std::get<AdamWAttributes>(update.attributes).count > 0) return std::nullopt;
    const UpdateForm form = update_form(graph_, update);
    const ValueId gradient = update.inputs[form.gradient()];
    HeadUpdate head{.weight_grad = graph_.value(gradient).producer, .update = n};
    if (!is_made_by(gradient, {Op::kEmbeddingGrad, Op::kLinearWeightGrad})) return std::nullopt;
    if (graph_.node(head.weight_grad).op == Op::kEmbeddingGrad) {
      head.embedding_grad = head.weight_grad;
      const std::vector<ValueId>& inputs = graph_.node(head.embedding_grad).inputs;
      if (inputs.size() != 3 || !is_made_by(inputs[2], {Op::kLinearWeightGrad})) return std::nullopt;
      if (readers(inputs[2]).size() != 1 || is_output(graph_, inputs[2])) return std::nullopt;
      head.weight_grad = graph_.value(inputs[2]).producer;
    }
    if (!find_loss(head) || !find_norm(head, gradient)) return std::nullopt;
    const std::int64_t rows = graph_.type(gradient).shape[0];
    head.part_rows = rows_of_part(rows, parts);
    return head.part_rows < rows ? std::optional(head) : std::nullopt;
  }

 private:
  const std::vector<NodeId>& readers(ValueId value) const { return readers_[static_cast<std::size_t>(value)]; }

  bool is_made_by(ValueId value, std::initializer_list<Op> ops) const {
    const NodeId producer = graph_.value(value).producer;
    return producer != kNoNode && std::ranges::find(ops, graph_.node(producer).op) != ops.end();
  }

  // Finds the loss by rows that gives the weight its gradient.
  bool find_loss(HeadUpdate& head) const {
    const Node& gradient = graph_.node(head.weight_grad);
    if (gradient.inputs.size() != 2 || !is_made_by(gradient.inputs[0], {Op::kCrossEntropy})) return false;
    head.loss = graph_.value(gradient.inputs[0]).producer;
    const Node& loss = graph_.node(head.loss);
    if (std::get<CrossEntropyAttributes>(loss.attributes) != CrossEntropyAttributes{} || loss.inputs.size() != 3 ||
        !is_made_by(loss.inputs[0], {Op::kLinear})) {
      return false;
    }
    head.product = graph_.value(loss.inputs[0]).producer;
    const Node& product = graph_.node(head.product);
    return product.inputs.size() == 2 && product.inputs[0] == gradient.inputs[1] &&
           product.inputs[1] == graph_.node(head.update).inputs[0] && product.row_count == loss.row_count &&
           product.row_count == gradient.row_count;
  }

  // Finds the norm of this gradient alone.
  bool find_norm(HeadUpdate& head, ValueId gradient) const {
    const std::vector<NodeId>& reading = readers(gradient);
    if (reading.size() != 2 || is_output(graph_, gradient)) return false;
    head.sum = reading[0] == head.update ? reading[1] : reading[0];
    const Node& sum = graph_.node(head.sum);
    const ValueId clip = graph_.node(head.update).inputs.back();
    if (sum.op != Op::kSumSquares || sum.inputs.size() != 1 || !is_made_by(clip, {Op::kGradientNorm})) return false;
    head.norm = graph_.value(clip).producer;
    const Node& norm = graph_.node(head.norm);
    return norm.inputs.size() == 2 && norm.inputs[1] == sum.outputs[0] && readers(clip).size() == 1 &&
           !is_output(graph_, norm.outputs[0]);
  }

  const Graph& graph_;
  Reading readers_;
};

// Appends what replaces one head's gradient and update.
class Parts {
 public:
  Parts(const Graph& graph, const HeadUpdate& head, ValueId sums, std::int64_t fewest_rows, Rewriter& rewriter)
      : graph_(graph),
        head_(head),
        rewriter_(rewriter),
        loss_(graph.node(head.loss)),
        product_(graph.node(head.product)),
        update_(graph.node(head.update)),
        form_(update_form(graph, update_)) {
    cut_rows(sums, fewest_rows);
  }

  // Returns the sums of squares of the parts.
  std::vector<ValueId> append() {
    const Shape& shape = graph_.type(update_.inputs[0]).shape;
    std::vector<ValueId> made;  // the parameter and its moments, as the last part has left them
    for (std::size_t i = 0; i < form_.gradient(); ++i) made.push_back(rewriter_.mapped(update_.inputs[i]));
    std::vector<ValueId> squares;
    for (std::int64_t first = 0; first < shape[0]; first += head_.part_rows) {
      const std::int64_t count = std::min(head_.part_rows, shape[0] - first);
      const std::string name = fmt::format("{}.rows {}", graph_.value(update_.inputs[0]).name, first);
      const ValueId gradient = part_gradient(name, made[0], first, count);
      squares.push_back(add(
          {.op = Op::kSumSquares, .name = name + ".sum_squares", .inputs = {gradient}, .phase = Phase::kUpdate})[0]);
      const Node& norm = graph_.node(head_.norm);
      const ValueId clip = add({.op = norm.op,
                                .name = name + ".norm",
                                .attributes = norm.attributes,
                                .inputs = {rewriter_.mapped(norm.inputs[0]), squares.back()},
                                .phase = Phase::kUpdate})[1];
      auto attributes = std::get<AdamWAttributes>(update_.attributes);
      attributes.first = attributes.gradient_first = first * shape[1];
      attributes.count = count * shape[1];
      attributes.whole_moments = true;
      std::vector<ValueId> inputs = made;
      inputs.push_back(gradient);
      for (std::size_t i = form_.scalars(); i + 1 < update_.inputs.size(); ++i) {
        inputs.push_back(rewriter_.mapped(update_.inputs[i]));
      }
      inputs.push_back(clip);
      made = add({.op = Op::kAdamW,
                  .name = name + ".update",
                  .attributes = attributes,
                  .inputs = std::move(inputs),
                  .phase = Phase::kUpdate});
    }
    for (std::size_t i = 0; i < made.size(); ++i) rewriter_.map(update_.outputs[i], made[i]);
    return squares;
  }

 private:
  // Some of the loss's rows.
  struct RowChunk {
    ValueId x, labels, sums, rows;
    std::string name;
  };

  std::vector<ValueId> add(Node node) { return rewriter_.graph().add_node(std::move(node)); }

  void cut_rows(ValueId sums, std::int64_t fewest_rows) {
    const ValueId x = rewriter_.mapped(product_.inputs[0]), labels = rewriter_.mapped(loss_.inputs[1]);
    const ValueId rows = loss_.row_count == kNoValue ? kNoValue : rewriter_.mapped(loss_.row_count);
    const Shape &of_x = graph_.type(product_.inputs[0]).shape, &of_logits = graph_.type(loss_.inputs[0]).shape;
    const std::int64_t chunk =
        chunk_rows(of_x[0], of_x[1], of_logits[1], graph_.type(loss_.inputs[0]).dtype, fewest_rows);
    if (chunk >= of_x[0]) {
      chunks_.push_back({x, labels, sums, rows, ""});
      return;
    }
    for (std::int64_t first = 0; first < of_x[0]; first += chunk) {
      const RowPartAttributes part{.first = first, .count = std::min(chunk, of_x[0] - first)};
      const std::string name = fmt::format(".of {}", first);
      const auto take = [&](ValueId value, const char* what) {
        return add({.op = Op::kTakeRows,
                    .name = fmt::format("{}.{}{}", product_.name, what, name),
                    .attributes = part,
                    .inputs = {value},
                    .row_count = rows,
                    .phase = Phase::kBackward});
      };
      const std::vector<ValueId> x_part = take(x, "input");
      chunks_.push_back({x_part[0], take(labels, "labels")[0], take(sums, "sums")[0], x_part[1], name});
    }
  }

  // Returns the gradient of those rows of the weight.
  ValueId part_gradient(const std::string& name, ValueId weight, std::int64_t first, std::int64_t count) {
    const ValueId part = add({.op = Op::kTakeRows,
                              .name = name + ".weight",
                              .attributes = RowPartAttributes{.first = first, .count = count},
                              .inputs = {weight},
                              .phase = Phase::kBackward})[0];
    const ValueId scale = rewriter_.mapped(loss_.inputs[2]);
    ValueId gradient = kNoValue;
    for (const RowChunk& chunk : chunks_) {
      const ValueId logits = add({.op = product_.op,
                                  .name = name + ".logits" + chunk.name,
                                  .inputs = {chunk.x, part},
                                  .row_count = chunk.rows,
                                  .phase = Phase::kBackward})[0];
      const ValueId of_logits = add({.op = Op::kCrossEntropyPart,
                                     .name = name + ".loss" + chunk.name,
                                     .attributes = ClassPartAttributes{first},
                                     .inputs = {logits, chunk.labels, chunk.sums, scale},
                                     .row_count = chunk.rows,
                                     .phase = Phase::kBackward})[0];
      std::vector<ValueId> inputs = {of_logits, chunk.x};
      if (gradient != kNoValue) inputs.push_back(gradient);
      gradient = add({.op = Op::kLinearWeightGrad,
                      .name = name + ".weight_grad" + chunk.name,
                      .inputs = std::move(inputs),
                      .row_count = chunk.rows,
                      .phase = Phase::kBackward})[0];
    }
    if (head_.embedding_grad == kNoNode) return gradient;
    const Node& whole = graph_.node(head_.embedding_grad);
    auto attributes = std::get<EmbeddingAttributes>(whole.attributes);
    attributes.first_row = first;
    attributes.table_rows = count;
    return add({.op = whole.op,
                .name = name + ".embedding_grad",
                .attributes = attributes,
                .inputs = {rewriter_.mapped(whole.inputs[0]), rewriter_.mapped(whole.inputs[1]), gradient},
                .row_count = whole.row_count == kNoValue ? kNoValue : rewriter_.mapped(whole.row_count),
                .phase = Phase::kBackward})[0];
  }

  const Graph& graph_;
  const HeadUpdate& head_;
  Rewriter& rewriter_;
  const Node &loss_, &product_, &update_;
  UpdateForm form_;
  std::vector<RowChunk> chunks_;
};

}  // namespace

Graph update_head_in_parts(const Graph& graph, std::int64_t parts, std::int64_t fewest_rows) {
  const Finder finder(graph);
  std::vector<HeadUpdate> heads;
  std::set<NodeId> gone;
  for (NodeId n = 0; n < static_cast<NodeId>(graph.nodes().size()); ++n) {
    const std::optional<HeadUpdate> head = finder.find(n, parts);
    if (!head) continue;
    heads.push_back(*head);
    gone.insert({head->weight_grad, head->embedding_grad, head->sum, head->norm, head->update});
  }
  if (heads.empty()) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  std::map<NodeId, ValueId> sums;                   // by loss
  std::map<ValueId, std::vector<ValueId>> squares;  // of the parts, by the whole's sum
  for (NodeId n = 0; n < static_cast<NodeId>(graph.nodes().size()); ++n) {
    const Node& node = graph.node(n);
    for (const HeadUpdate& head : heads) {
      if (n == head.loss) {  // which may take the logits' bytes
        sums[n] = add_single(rewriter.graph(),
                             {.op = Op::kSoftmaxSums,
                              .name = node.name + ".sums",
                              .inputs = {rewriter.mapped(node.inputs[0])},
                              .row_count = node.row_count == kNoValue ? kNoValue : rewriter.mapped(node.row_count),
                              .phase = node.phase});
      }
      if (n != head.sum) continue;
      squares[node.outputs[0]] = Parts(graph, head, sums.at(head.loss), fewest_rows, rewriter).append();
    }
    if (gone.contains(n)) continue;
    if (node.op != Op::kGradientNorm) {
      rewriter.copy_node(node);
      continue;
    }
    std::vector<ValueId> inputs;  // with the squares of all parts
    for (const ValueId input : node.inputs) {
      if (const auto of_parts = squares.find(input); of_parts != squares.end()) {
        inputs.insert(inputs.end(), of_parts->second.begin(), of_parts->second.end());
      } else {
        inputs.push_back(rewriter.mapped(input));
      }
    }
    rewriter.copy_node(node, std::move(inputs));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
