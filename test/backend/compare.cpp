#include "backend/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/column_sums.h"
#include "graph/layer_norm_form.h"
#include "graph/partial_sums.h"

namespace plimsoll::test {
namespace {

std::string label(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  return fmt::format("node '{}' ({}), output {}", node.name, op_name(node.op), graph.value(value).output_index);
}

template <typename Body>
void for_each_made(const Graph& graph, Body body) {
  for (const Node& node : graph.nodes()) {
    for (const ValueId output : node.outputs) body(node, output);
  }
}

}  // namespace

Tolerance tolerance_at(const Graph& graph, const Node& node, ValueId output) {
  const DType type = graph.type(output).dtype;
  if (!is_floating(type)) return {};
  const bool product = node.op == Op::kLinear || node.op == Op::kLinearAdd || node.op == Op::kLinearInputGrad;
  const DType rows = graph.type(node.inputs.empty() ? output : node.inputs[0]).dtype;
  if (product && is_half(rows) && graph.type(node.inputs[1]).dtype == wide(rows)) return rounded_weight_tolerance(rows);
  if (node.op == Op::kLayerNorm && is_half(type) && layer_norm_form(node).has_residual) {
    return rounded_sum_tolerance(type);
  }
  for (const auto& list : {node.inputs, node.outputs}) {
    for (const ValueId value : list) {
      if (is_half(graph.type(value).dtype)) {
        return half_tolerance_of(node.op, graph.type(value).dtype, type, graph.type(node.inputs[0]).shape[0]);
      }
    }
  }
  if (product && any_tensor(graph, node, is_coded)) return coded_product_tolerance();
  if (product) return product_tolerance(graph.type(node.inputs[0]).shape[1]);
  // Rows side by side are copies; their sum is not.
  const auto* const spatial = std::get_if<SpatialAttributes>(&node.attributes);
  if (node.op == Op::kSpatialEmbedding && (spatial == nullptr || !spatial->sums)) return tolerance_of(Op::kGatherRows);
  // What multiply adds to the gradient of a vector that it takes twice is two products, rounded before their sum.
  if (node.op == Op::kAdd) {
    const auto is_product = [&](ValueId input) {
      const NodeId producer = graph.value(input).producer;
      return producer != kNoNode && graph.node(producer).op == Op::kMultiply;
    };
    if (std::any_of(node.inputs.begin(), node.inputs.end(), is_product)) return tolerance_of(Op::kMultiply);
  }
  if (node.op == Op::kLinearWeightGrad) return weight_grad_tolerance(graph.type(node.inputs[0]).shape[0]);
  if (gelu_by_tanh(node.attributes)) return tanh_gelu_tolerance();
  return tolerance_of(node.op);
}

double used_tolerance(std::span<const double> found, std::span<const double> expected, const Tolerance& tolerance) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return kInfinity;
  double largest = 0, worst = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double absolute = std::max(tolerance.absolute * largest, tolerance.floor);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    const double error = std::abs(found[i] - expected[i]);
    const double allowed = tolerance.relative * std::abs(expected[i]) + absolute;
    if (!std::isfinite(error) || allowed == 0) return kInfinity;
    worst = std::max(worst, error / allowed);
  }
  return worst;
}

namespace {

// The sums over the rows of another output: a sum of values that may each be off by that output's tolerance, in any
// direction.
std::optional<Tolerance> tolerance_of_sums(const Graph& graph, const Node& node, std::size_t output,
                                           const GraphRunner& expected) {
  for (const ColumnSums& sums : column_sums(node)) {
    if (sums.sums != output) continue;
    const ValueId summed = node.outputs[sums.of];
    Tolerance tolerance = tolerance_at(graph, node, summed);
    const std::vector<double>& values = expected.made(summed);
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    const auto rows = static_cast<double>(values.size()) / static_cast<double>(graph.type(summed).shape[1]);
    tolerance.floor = std::max(tolerance.floor, (tolerance.relative + tolerance.absolute) * largest * std::sqrt(rows));
    return tolerance;
  }
  return std::nullopt;
}

}  // namespace

namespace {

void expect_near(const std::string& label, std::span<const double> found, std::span<const double> expected,
                 const Tolerance& tolerance) {
  const double used = used_tolerance(found, expected, tolerance);
  if (used <= 1) return;
  std::string pairs;
  for (std::size_t i = 0; i < std::min<std::size_t>(8, found.size()); ++i) {
    pairs += fmt::format(" {}|{}", found[i], expected[i]);
  }
  ADD_FAILURE() << label << " is " << used << " times the tolerance (relative " << tolerance.relative << ", absolute "
                << tolerance.absolute << ": " << tolerance.reason << "); " << found.size() << " and " << expected.size()
                << " elements, found|expected:" << pairs;
}

// Adds up the `which`-th of the sums that the rows have side by side.
std::vector<double> add_parts(const std::vector<double>& parts, const Shape& shape, std::int64_t sums,
                              std::int64_t which) {
  const std::int64_t width = shape[1] / sums;
  std::vector<double> total(static_cast<std::size_t>(width), 0);
  for (std::int64_t part = 0; part < shape[0]; ++part) {
    for (std::int64_t c = 0; c < width; ++c) {
      total[static_cast<std::size_t>(c)] += parts.at(static_cast<std::size_t>(part * shape[1] + which * width + c));
    }
  }
  return total;
}

}  // namespace

void expect_near(const Graph& graph, const GraphRunner& found, const GraphRunner& expected) {
  for_each_made(graph, [&](const Node& node, ValueId output) {
    const auto at = static_cast<std::size_t>(graph.value(output).output_index);
    const auto tolerance = [&](std::size_t index) {
      const std::optional<Tolerance> of_sums = tolerance_of_sums(graph, node, index, expected);
      return of_sums ? *of_sums : tolerance_at(graph, node, output);
    };
    if (partial_sums(node) == 0 || at != summed_outputs(node)->first) {
      expect_near(label(graph, output), found.made(output), expected.made(output), tolerance(at));
      return;
    }
    // Backends divide rows among parts as they like.
    const Shape& shape = graph.type(output).shape;
    const std::int64_t sums = summed_outputs(node)->count;
    for (std::int64_t sum = 0; sum < sums; ++sum) {
      expect_near(label(graph, output) + fmt::format(", sum {}", sum), add_parts(found.made(output), shape, sums, sum),
                  add_parts(expected.made(output), shape, sums, sum), tolerance(at + static_cast<std::size_t>(sum)));
    }
  });
}

void expect_identical(const Graph& graph, const GraphRunner& found, const GraphRunner& expected) {
  for_each_made(graph, [&](const Node&, ValueId output) {
    EXPECT_EQ(found.made(output), expected.made(output)) << label(graph, output);
  });
}

}  // namespace plimsoll::test
