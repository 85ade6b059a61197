#include "transform/fused_rows.h"

#include <map>
#include <utility>

#include "graph/layer_norm_form.h"
#include "transform/rewriter.h"

namespace plimsoll {
namespace {

// Who reads a graph's values.
class Readers {
 public:
  Readers(const Graph& graph, const std::vector<ValueId>& kept) : graph_(graph), count_(graph.values().size(), 0) {
    for (const Node& node : graph.nodes()) {
      for (const ValueId input : node.inputs) ++count_[static_cast<std::size_t>(input)];
    }
    for (const ValueId output : graph.outputs()) ++count_[static_cast<std::size_t>(output)];
    for (const ValueId value : kept) {
      if (value != kNoValue) ++count_[static_cast<std::size_t>(value)];
    }
  }

  // Returns the node that made the value if it has that op and row count and only one reader; else nullptr.
  const Node* maker(ValueId value, Op op, ValueId rows) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer == kNoNode || count_[static_cast<std::size_t>(value)] != 1) return nullptr;
    const Node& node = graph_.node(producer);
    return node.op == op && node.row_count == rows ? &node : nullptr;
  }

 private:
  const Graph& graph_;
  std::vector<int> count_;
};

// Copies `graph` without the nodes in `gone`, and with some nodes replaced by others.
class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), rewriter_(graph), gone_(graph.nodes().size(), false) {}

  void leave_out(const Node& node) { gone_[number(node)] = true; }

  // Returns whether another node already takes its place.
  bool is_changed(const Node& node) const { return fused_.contains(number(node)); }

  // Puts `node`, with inputs and outputs of the old graph, in the place of node n.
  void replace(std::size_t n, Node node) { fused_.emplace(n, std::move(node)); }

  Graph run() {
    rewriter_.copy_sources();
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (gone_[n]) continue;
      const auto fused = fused_.find(n);
      rewriter_.copy_node(fused == fused_.end() ? graph_.nodes()[n] : fused->second);
    }
    rewriter_.copy_outputs();
    return rewriter_.take();
  }
  // The same; `values` of the old graph become those of the result.
  Graph run(std::vector<ValueId>& values) {
    Graph result = run();
    for (ValueId& value : values) value = value == kNoValue ? value : rewriter_.mapped(value);
    return result;
  }

 private:
  std::size_t number(const Node& node) const {
    return static_cast<std::size_t>(graph_.value(node.outputs[0]).producer);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> gone_;
  std::map<std::size_t, Node> fused_{};
};

}  // namespace

Graph fuse_residual_norms(const Graph& graph, std::vector<ValueId>& values) {
  const Readers readers(graph, values);
  Fusion fusion(graph);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& norm = graph.nodes()[n];
    check(norm.phase == Phase::kForward, "residuals are fused before there is a backward");
    if (norm.op != Op::kLayerNorm || norm.inputs.size() != LayerNormForm::kResidual) continue;
    const Node* const sum = readers.maker(norm.inputs[0], Op::kAdd, norm.row_count);
    if (sum == nullptr || sum->inputs[0] == sum->inputs[1]) continue;
    ValueId x = sum->inputs[0], residual = sum->inputs[1];
    const Node* dropped = readers.maker(x, Op::kDropout, norm.row_count);
    if (dropped == nullptr) {
      dropped = readers.maker(residual, Op::kDropout, norm.row_count);
      if (dropped != nullptr) std::swap(x, residual);
    }
    Node node = norm;
    auto& attributes = std::get<LayerNormAttributes>(node.attributes);
    fusion.leave_out(*sum);
    if (dropped == nullptr) {
      node.inputs[0] = x;
      node.inputs.push_back(residual);
    } else {
      fusion.leave_out(*dropped);
      const auto& dropout = std::get<DropoutAttributes>(dropped->attributes);
      attributes.dropout_p = dropout.p;
      attributes.site = dropout.site;
      node.inputs[0] = dropped->inputs[0];
      node.inputs.insert(node.inputs.end(), {residual, dropped->inputs[1], dropped->inputs[2]});
    }
    fusion.replace(n, std::move(node));
  }
  return fusion.run(values);
}

Graph fuse_dropout_casts(const Graph& graph, std::vector<ValueId>& values) {
  const Readers readers(graph, values);
  Fusion fusion(graph);
  const auto casts = [](const Node& node) { return node.op == Op::kCast && node.inputs.size() == 1; };
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& second = graph.nodes()[n];
    check(second.phase == Phase::kForward, "casts are fused before there is a backward");
    const bool casts_second = casts(second);
    if (!casts_second && second.op != Op::kDropout) continue;
    const Node* const first =
        readers.maker(second.inputs[0], casts_second ? Op::kDropout : Op::kCast, second.row_count);
    if (first == nullptr || (!casts_second && !casts(*first))) continue;
    if (fusion.is_changed(*first)) continue;
    Node node = casts_second ? *first : second;
    auto& attributes = std::get<DropoutAttributes>(node.attributes);
    if (attributes.to) continue;
    attributes.to = graph.type(second.outputs[0]).dtype;
    node.name = second.name;
    node.inputs[0] = first->inputs[0];
    node.outputs = second.outputs;
    fusion.leave_out(*first);
    fusion.replace(n, std::move(node));
  }
  return fusion.run(values);
}

Graph fuse_gradient_sums(const Graph& graph, const std::function<bool(const Graph&, const Node&)>& adds) {
  const Readers readers(graph, {});
  Fusion fusion(graph);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& sum = graph.nodes()[n];
    if (sum.op != Op::kAdd || sum.phase != Phase::kBackward) continue;
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
      const Node* const product = readers.maker(sum.inputs[i], Op::kLinearInputGrad, sum.row_count);
      const bool fits = product != nullptr && product->phase == sum.phase && product->inputs.size() == 2 &&
                        !is_coded(graph.type(product->inputs[1]).dtype) && adds(graph, *product);
      if (!fits) continue;
      Node node = *product;
      node.outputs = sum.outputs;
      node.inputs.push_back(sum.inputs[1 - i]);
      fusion.leave_out(*product);
      fusion.replace(n, std::move(node));
      break;
    }
  }
  return fusion.run();
}

}  // namespace plimsoll
