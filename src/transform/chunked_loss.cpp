#include "transform/chunked_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/build.h"
#include "transform/readers.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSpares = 4;  // chunks pay if logits are at least this many times as wide as the rows

// A node that computes something else from the logits, row by row.
struct Beside {
  NodeId node = kNoNode;
  bool is_read = false;
};

// The nodes of one loss; kNoNode where one is not there.
struct Loss {
  NodeId product = kNoNode, loss = kNoNode, input_grad = kNoNode, weight_grad = kNoNode;
  std::vector<Beside> beside{};
  std::int64_t rows = 0;   // of a chunk
  NodeId place = kNoNode;  // the node in whose place all of them run

  bool has_gradient() const { return input_grad != kNoNode || weight_grad != kNoNode; }
};

// The nodes that read each value.
using Reading = std::vector<std::vector<NodeId>>;

// Finds the gradients that are computed from those of node `loss`; false if its gradient is used elsewhere, too.
bool find_gradients(const Graph& graph, const Reading& readers, Loss& loss) {
  const Node& node = graph.node(loss.loss);
  for (const NodeId reader : readers[static_cast<std::size_t>(node.outputs[1])]) {
    const Node& gradient = graph.node(reader);
    const bool of_input = gradient.op == Op::kLinearInputGrad && gradient.inputs.size() == 2;
    NodeId& kept = of_input ? loss.input_grad : loss.weight_grad;
    const bool fits = of_input || gradient.op == Op::kLinearWeightGrad;
    if (!fits || kept != kNoNode || gradient.row_count != node.row_count) return false;
    kept = reader;
    loss.place = loss.place == loss.loss ? reader : std::min(loss.place, reader);
  }
  return true;
}

// Returns the loss that node n ends, if that loss is to be cut.
std::optional<Loss> find_loss(const Graph& graph, const Reading& readers, NodeId n, std::int64_t fewest_rows) {
  const Node& node = graph.node(n);
  if (node.op != Op::kCrossEntropy || graph.value(node.inputs[0]).producer == kNoNode) return std::nullopt;
  Loss loss{.product = graph.value(node.inputs[0]).producer, .loss = n, .place = n};
  const Node& product = graph.node(loss.product);
  if (product.op != Op::kLinear || product.inputs.size() != 2 || product.row_count != node.row_count) {
    return std::nullopt;
  }
  const Shape& x = graph.type(product.inputs[0]).shape;
  const std::int64_t classes = graph.type(node.inputs[0]).shape[1];
  loss.rows = chunk_rows(x[0], x[1], classes, graph.type(node.inputs[0]).dtype, fewest_rows);
  if (loss.rows >= x[0]) return std::nullopt;
  if (is_output(graph, node.inputs[0]) || is_output(graph, node.outputs[1])) return std::nullopt;
  for (const NodeId reader : readers[static_cast<std::size_t>(node.inputs[0])]) {
    if (reader == n) continue;
    if (graph.node(reader).op != Op::kLabelScores && graph.node(reader).op != Op::kSoftmaxSums) return std::nullopt;
    loss.beside.push_back({.node = reader});
  }
  if (!find_gradients(graph, readers, loss)) return std::nullopt;
  // Every reader of the loss or the scores must come after the place where they will be made.
  const auto read_behind = [&](ValueId value) {
    return std::ranges::all_of(readers[static_cast<std::size_t>(value)],
                               [&](NodeId reader) { return reader > loss.place; });
  };
  if (!read_behind(node.outputs[0])) return std::nullopt;
  for (Beside& beside : loss.beside) {
    const ValueId output = graph.node(beside.node).outputs[0];
    beside.is_read = is_output(graph, output) || !readers[static_cast<std::size_t>(output)].empty();
    if (!read_behind(output)) return std::nullopt;
  }
  return loss;
}

class Cutter {
 public:
  Cutter(const Graph& graph, const Loss& loss, Rewriter& rewriter)
      : graph_(graph),
        loss_(loss),
        rewriter_(rewriter),
        phase_(loss.has_gradient() ? Phase::kBackward : graph.node(loss.loss).phase) {}

  // Appends the nodes of every chunk, and maps the outputs of the whole.
  void append() {
    const Node &product = graph_.node(loss_.product), &loss = graph_.node(loss_.loss);
    const ValueId x = rewriter_.mapped(product.inputs[0]), labels = rewriter_.mapped(loss.inputs[1]);
    const ValueId weight = rewriter_.mapped(product.inputs[1]);
    const ValueId rows = loss.row_count == kNoValue ? kNoValue : rewriter_.mapped(loss.row_count);
    const std::int64_t capacity = graph_.type(product.inputs[0]).shape[0];
    std::vector<ValueId> rest;  // of the loss's inputs
    for (std::size_t i = 2; i < loss.inputs.size(); ++i) rest.push_back(rewriter_.mapped(loss.inputs[i]));
    std::vector<ValueId> input_grads;
    std::vector<std::vector<ValueId>> beside(loss_.beside.size());  // the parts of each
    ValueId sum = kNoValue, weight_grad = kNoValue;
    for (std::int64_t first = 0; first < capacity; first += loss_.rows) {
      const RowPartAttributes part{.first = first, .count = std::min(loss_.rows, capacity - first)};
      const auto name = [&](const Node& node) { return fmt::format("{}.rows {}", node.name, first); };
      const auto take = [&](const Node& node, ValueId value, const char* what) {
        return add({.op = Op::kTakeRows,
                    .name = fmt::format("{}.{}", name(node), what),
                    .attributes = part,
                    .inputs = {value},
                    .row_count = rows});
      };
      const std::vector<ValueId> x_part = take(product, x, "input");
      const ValueId real = x_part[1], labels_part = take(loss, labels, "labels")[0];
      const ValueId logits =
          add({.op = Op::kLinear, .name = name(product), .inputs = {x_part[0], weight}, .row_count = real})[0];
      for (std::size_t i = 0; i < beside.size(); ++i) {
        if (!loss_.beside[i].is_read) continue;
        const Node& whole = graph_.node(loss_.beside[i].node);
        std::vector<ValueId> inputs = {logits};
        if (whole.op == Op::kLabelScores) inputs.push_back(labels_part);
        beside[i].push_back(
            add({.op = whole.op, .name = name(whole), .inputs = std::move(inputs), .row_count = real})[0]);
      }
      std::vector<ValueId> inputs = {logits, labels_part};
      inputs.insert(inputs.end(), rest.begin(), rest.end());
      const bool is_last = first + loss_.rows >= capacity;
      const std::vector<ValueId> outputs = add({.op = loss.op,
                                                .name = name(loss),
                                                .attributes = loss.attributes,
                                                .inputs = std::move(inputs),
                                                .row_count = real});
      sum = sum == kNoValue ? outputs[0]
                            : add({.op = Op::kAdd,
                                   .name = is_last ? loss.name : name(loss) + ".sum",
                                   .inputs = {sum, outputs[0]}})[0];
      if (loss_.input_grad != kNoNode) {
        const Node& whole = graph_.node(loss_.input_grad);
        input_grads.push_back(
            add({.op = whole.op, .name = name(whole), .inputs = {outputs[1], weight}, .row_count = real})[0]);
      }
      if (loss_.weight_grad != kNoNode) {
        const Node& whole = graph_.node(loss_.weight_grad);
        std::vector<ValueId> of_weight = {outputs[1], x_part[0]};
        if (weight_grad != kNoValue) of_weight.push_back(weight_grad);
        for (std::size_t i = 2; weight_grad == kNoValue && i < whole.inputs.size(); ++i) {
          of_weight.push_back(rewriter_.mapped(whole.inputs[i]));
        }
        weight_grad = add({.op = whole.op, .name = name(whole), .inputs = std::move(of_weight), .row_count = real})[0];
      }
    }
    rewriter_.map(loss.outputs[0], sum);
    for (std::size_t i = 0; i < beside.size(); ++i) {
      if (loss_.beside[i].is_read) join(graph_.node(loss_.beside[i].node), beside[i], rows);
    }
    if (loss_.input_grad != kNoNode) join(graph_.node(loss_.input_grad), input_grads, rows);
    if (loss_.weight_grad != kNoNode) rewriter_.map(graph_.node(loss_.weight_grad).outputs[0], weight_grad);
  }

 private:
  std::vector<ValueId> add(Node node) {
    node.phase = phase_;
    return rewriter_.graph().add_node(std::move(node));
  }
  void join(const Node& whole, const std::vector<ValueId>& parts, ValueId rows) {
    rewriter_.map(whole.outputs[0],
                  add({.op = Op::kJoinRows, .name = whole.name, .inputs = parts, .row_count = rows})[0]);
  }

  const Graph& graph_;
  const Loss& loss_;
  Rewriter& rewriter_;
  Phase phase_;
};

}  // namespace

std::int64_t chunk_rows(std::int64_t n, std::int64_t width, std::int64_t classes, DType dtype, std::int64_t fewest) {
  if (classes < kSpares * width) return n;
  const std::int64_t unit = is_half(dtype) ? 2 * fewest : fewest;
  const std::int64_t equal = (n * width / std::max<std::int64_t>(1, classes) + unit - 1) / unit;
  return std::min(n, std::max<std::int64_t>(1, equal) * unit);
}

Graph chunk_loss(const Graph& graph, std::int64_t fewest_rows) {
  const Reading readers = readers_of(graph);
  std::map<NodeId, Loss> losses;  // by their place
  std::set<NodeId> gone;
  for (NodeId n = 0; n < static_cast<NodeId>(graph.nodes().size()); ++n) {
    const std::optional<Loss> loss = find_loss(graph, readers, n, fewest_rows);
    if (!loss) continue;
    losses.emplace(loss->place, *loss);
    gone.insert({loss->product, loss->loss, loss->input_grad, loss->weight_grad});
    for (const Beside& beside : loss->beside) gone.insert(beside.node);
  }
  if (losses.empty()) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  for (NodeId n = 0; n < static_cast<NodeId>(graph.nodes().size()); ++n) {
    if (const auto found = losses.find(n); found != losses.end()) Cutter(graph, found->second, rewriter).append();
    if (!gone.contains(n)) rewriter.copy_node(graph.node(n));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
