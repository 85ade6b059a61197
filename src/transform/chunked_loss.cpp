#include "transform/chunked_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "graph/build.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kFewestRows = 64;
constexpr std::int64_t kSpares = 4;  // logits so many times as wide as the rows are worth it

// The nodes of one loss, by their numbers.
struct Loss {
  std::size_t product = 0, loss = 0;
  std::optional<std::size_t> scores{}, input_grad{}, weight_grad{};
  std::int64_t rows = 0;  // of a chunk
  std::size_t place = 0;  // the number of the node in whose place all of them run
};

// Who reads each value.
using ReadingNodes = std::vector<std::vector<std::size_t>>;

ReadingNodes reading_nodes(const Graph& graph) {
  ReadingNodes readers(graph.values().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) readers[static_cast<std::size_t>(input)].push_back(n);
  }
  return readers;
}

bool is_output(const Graph& graph, ValueId value) { return std::ranges::find(graph.outputs(), value) != graph.outputs().end(); }

// The loss that node n ends, if it is one that is cut.
std::optional<Loss> find_loss(const Graph& graph, const ReadingNodes& readers, std::size_t n) {
  const Node& node = graph.nodes()[n];
  if (node.op != Op::kCrossEntropy || graph.value(node.inputs[0]).producer == kNoNode) return std::nullopt;
  Loss loss{.product = static_cast<std::size_t>(graph.value(node.inputs[0]).producer), .loss = n, .place = n};
  const Node& product = graph.nodes()[loss.product];
  if (product.op != Op::kLinear || product.inputs.size() != 2 || product.row_count != node.row_count) return std::nullopt;
  const Shape& x = graph.type(product.inputs[0]).shape;
  const std::int64_t classes = graph.type(node.inputs[0]).shape[1];
  loss.rows = chunk_rows(x[0], x[1], classes);
  if (classes < kSpares * x[1] || loss.rows >= x[0]) return std::nullopt;
  const auto read_by = [&](ValueId value) { return std::span(readers[static_cast<std::size_t>(value)]); };
  if (is_output(graph, node.inputs[0]) || is_output(graph, node.outputs[1])) return std::nullopt;
  for (const std::size_t reader : read_by(node.inputs[0])) {
    if (reader == n) continue;
    if (graph.nodes()[reader].op != Op::kLabelScores || loss.scores) return std::nullopt;
    loss.scores = reader;
  }
  for (const std::size_t reader : read_by(node.outputs[1])) {
    const Node& gradient = graph.nodes()[reader];
    auto& kept = gradient.op == Op::kLinearInputGrad ? loss.input_grad : loss.weight_grad;
    const bool fits = (gradient.op == Op::kLinearInputGrad && gradient.inputs.size() == 2) ||
                      gradient.op == Op::kLinearWeightGrad;
    if (!fits || kept || gradient.row_count != node.row_count) return std::nullopt;
    kept = reader;
    loss.place = loss.place == n ? reader : std::min(loss.place, reader);
  }
  return loss;
}

class Cutter {
 public:
  Cutter(const Graph& graph, const Loss& loss, Rewriter& rewriter)
      : graph_(graph),
        loss_(loss),
        rewriter_(rewriter),
        phase_(loss.input_grad || loss.weight_grad ? Phase::kBackward : graph.nodes()[loss.loss].phase) {}

  // Appends the nodes of every chunk, and maps the outputs of the whole.
  void append(bool with_scores) {
    const Node &product = graph_.nodes()[loss_.product], &loss = graph_.nodes()[loss_.loss];
    const ValueId x = rewriter_.mapped(product.inputs[0]), labels = rewriter_.mapped(loss.inputs[1]);
    const ValueId weight = rewriter_.mapped(product.inputs[1]);
    const ValueId rows = loss.row_count == kNoValue ? kNoValue : rewriter_.mapped(loss.row_count);
    const std::int64_t capacity = graph_.type(product.inputs[0]).shape[0];
    std::vector<ValueId> rest;  // of the loss's inputs
    for (std::size_t i = 2; i < loss.inputs.size(); ++i) rest.push_back(rewriter_.mapped(loss.inputs[i]));
    std::vector<ValueId> input_grads, scores;
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
      const ValueId logits = add(
          {.op = Op::kLinear, .name = name(product), .inputs = {x_part[0], weight}, .row_count = real})[0];
      if (with_scores) {
        const Node& whole = graph_.nodes()[*loss_.scores];
        scores.push_back(add({.op = whole.op, .name = name(whole), .inputs = {logits, labels_part}, .row_count = real})[0]);
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
      if (loss_.input_grad) {
        const Node& whole = graph_.nodes()[*loss_.input_grad];
        input_grads.push_back(
            add({.op = whole.op, .name = name(whole), .inputs = {outputs[1], weight}, .row_count = real})[0]);
      }
      if (loss_.weight_grad) {
        const Node& whole = graph_.nodes()[*loss_.weight_grad];
        std::vector<ValueId> of_weight = {outputs[1], x_part[0]};
        if (weight_grad != kNoValue) of_weight.push_back(weight_grad);
        for (std::size_t i = 2; weight_grad == kNoValue && i < whole.inputs.size(); ++i) {
          of_weight.push_back(rewriter_.mapped(whole.inputs[i]));
        }
        weight_grad = add({.op = whole.op, .name = name(whole), .inputs = std::move(of_weight), .row_count = real})[0];
      }
    }
    rewriter_.map(loss.outputs[0], sum);
    if (with_scores) join(graph_.nodes()[*loss_.scores], scores, rows);
    if (loss_.input_grad) join(graph_.nodes()[*loss_.input_grad], input_grads, rows);
    if (loss_.weight_grad) rewriter_.map(graph_.nodes()[*loss_.weight_grad].outputs[0], weight_grad);
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

std::int64_t chunk_rows(std::int64_t n, std::int64_t width, std::int64_t classes) {
  const std::int64_t equal = (n * width / std::max<std::int64_t>(1, classes) + kFewestRows - 1) / kFewestRows;
  return std::min(n, std::max<std::int64_t>(1, equal) * kFewestRows);
}

Graph chunk_loss(const Graph& graph) {
  const ReadingNodes readers = reading_nodes(graph);
  std::map<std::size_t, Loss> losses;  // by their place
  std::vector<bool> gone(graph.nodes().size(), false);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const std::optional<Loss> loss = find_loss(graph, readers, n);
    if (!loss) continue;
    losses.emplace(loss->place, *loss);
    gone[loss->product] = gone[loss->loss] = true;
    for (const auto& node : {loss->scores, loss->input_grad, loss->weight_grad}) {
      if (node) gone[*node] = true;
    }
  }
  if (losses.empty()) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_sources();
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (const auto found = losses.find(n); found != losses.end()) {
      const Loss& loss = found->second;
      const auto is_read = [&](ValueId value) {
        return !readers[static_cast<std::size_t>(value)].empty() || is_output(graph, value);
      };
      Cutter(graph, loss, rewriter).append(loss.scores && is_read(graph.nodes()[*loss.scores].outputs[0]));
    }
    if (!gone[n]) rewriter.copy_node(graph.nodes()[n]);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace plimsoll
