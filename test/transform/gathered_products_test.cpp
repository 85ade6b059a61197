#include "transform/gathered_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/autodiff.h"
#include "graph/build.h"
#include "graph/product_batches.h"
#include "transform/reference_outputs.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kRows = 6, kReal = 4, kWidth = 5;

// Two layers of maps of the same rows, as attention has them: query and key, and a value of another width; their
// products, and a loss. Outputs are the loss and all gradients.
struct Layers {
  Layers() {
    rows = graph.add_input("rows", {DType::kI32, {1}});
    ValueId x = graph.add_input("x", {DType::kF32, {kRows, kWidth}});
    for (const std::string layer : {"0.", "1."}) {
      const ValueId query = map(layer + "query", x, kWidth), value = map(layer + "value", x, 2 * kWidth);
      const ValueId key = map(layer + "key", x, kWidth);
      const ValueId both = multiply(graph, layer + "product", query, key, rows);
      x = add(graph, layer + "sum", both, map(layer + "dense", value, kWidth), rows);
    }
    const ValueId labels = graph.add_input("labels", {DType::kI32, {kRows}});
    const ValueId scale = graph.add_input("loss_scale", {DType::kF32, {1}});
    const ValueId loss = graph.add_node({.op = Op::kCrossEntropy,
                                         .name = "loss",
                                         .attributes = CrossEntropyAttributes{},
                                         .inputs = {x, labels, scale},
                                         .row_count = rows})[0];
    graph.mark_output(loss);
    const Seed seed = loss_seed(graph, loss);
    for (const auto& [parameter, gradient] : append_backward(graph, {&seed, 1}, trained)) {
      graph.mark_output(gradient.dense);
    }
  }

  ValueId map(const std::string& name, ValueId x, std::int64_t columns) {
    const std::int64_t inner = graph.type(x).shape[1];
    trained.push_back(graph.add_parameter(name + ".weight", {DType::kF32, {columns, inner}}));
    return linear(graph, name, x, trained.back(), kNoValue, rows);
  }

  Graph graph;
  ValueId rows = kNoValue;
  std::vector<ValueId> trained{};
};

std::vector<std::vector<double>> outputs_of(const Graph& graph) {
  return reference_outputs(graph, [](const Value& source, std::vector<double>& values) {
    if (source.name == "rows") values = {kReal};
    if (source.name == "loss_scale") values = {1};
    if (source.name == "labels") values.assign(kRows, 2);
  });
}

std::size_t place_of(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.nodes(), name, &Node::name);
  EXPECT_NE(found, graph.nodes().end()) << name;
  return static_cast<std::size_t>(found - graph.nodes().begin());
}

TEST(GatheredProducts, StandNextToEachOtherWithTheSameValues) {
  const Layers layers;
  const Graph gathered = gather_products(layers.graph);
  EXPECT_EQ(gathered.nodes().size(), layers.graph.nodes().size());
  EXPECT_EQ(outputs_of(gathered), outputs_of(layers.graph));
  for (const std::string layer : {"0.", "1."}) {
    SCOPED_TRACE(layer);
    EXPECT_EQ(batched_products(layers.graph, place_of(layers.graph, layer + "query")), 1U);
    EXPECT_EQ(place_of(gathered, layer + "key"), place_of(gathered, layer + "query") + 1);
    EXPECT_EQ(batched_products(gathered, place_of(gathered, layer + "query")), 2U);
    const std::size_t of_key = place_of(gathered, layer + "key.linear_weight_grad");
    const std::size_t of_query = place_of(gathered, layer + "query.linear_weight_grad");
    EXPECT_EQ(std::max(of_key, of_query), std::min(of_key, of_query) + 1);
  }
}

TEST(GatheredProducts, AreGatheredOnce) {
  const Graph once = gather_products(Layers().graph), twice = gather_products(once);
  EXPECT_EQ(dump(twice), dump(once));
}

// What is recomputed for backward stays where it is wanted: the layers of a model that normalizes first keep all that
// their maps read, so another layer's could be computed early.
TEST(GatheredProducts, AreNotOfOtherLayersWhereTheyAreRecomputed) {
  Graph graph;
  std::vector<ValueId> kept, made;
  const auto weight = [&](const std::string& name) {
    return graph.add_parameter(name + ".weight", {DType::kF32, {kWidth, kWidth}});
  };
  for (const std::string layer : {"0.", "1."})
    kept.push_back(graph.add_input(layer + "x", {DType::kF32, {kRows, kWidth}}));
  for (const std::size_t layer : {1U, 0U}) {
    for (const std::string map : {"gate.again", "up.again"}) {
      const std::string name = std::to_string(layer) + "." + map;
      made.push_back(graph.add_node(
          {.op = Op::kLinear, .name = name, .inputs = {kept[layer], weight(name)}, .phase = Phase::kBackward})[0]);
    }
    const std::string name = std::to_string(layer) + ".sum";
    made.push_back(graph.add_node(
        {.op = Op::kAdd, .name = name, .inputs = {made[made.size() - 2], made.back()}, .phase = Phase::kBackward})[0]);
    graph.mark_output(made.back());
  }
  const Graph gathered = gather_products(graph);
  EXPECT_TRUE(std::ranges::equal(gathered.nodes(), graph.nodes(), {}, &Node::name, &Node::name)) << dump(gathered);
  EXPECT_EQ(batched_products(gathered, 0), 2U);
}

// Maps of one type that read one another's results are no batch, nor are those of other rows.
TEST(ProductBatches, AreOfEqualNodesThatDoNotNeedEachOther) {
  Graph graph;
  const ValueId rows = graph.add_input("rows", {DType::kI32, {1}}), few = graph.add_input("few", {DType::kI32, {1}});
  const ValueId x = graph.add_input("x", {DType::kF32, {kRows, kWidth}});
  const auto weight = [&](const char* name) { return graph.add_parameter(name, {DType::kF32, {kWidth, kWidth}}); };
  const ValueId bias = graph.add_parameter("bias", {DType::kF32, {kWidth}});
  const ValueId a = linear(graph, "a", x, weight("a.w"), kNoValue, rows);
  const ValueId b = linear(graph, "b", x, weight("b.w"), kNoValue, rows);
  linear(graph, "of_a", a, weight("c.w"), kNoValue, rows);
  linear(graph, "of_few", b, weight("d.w"), kNoValue, few);
  linear(graph, "biased", b, weight("e.w"), bias, few);
  add_single(graph, {.op = Op::kGelu, .name = "gelu", .inputs = {b}, .row_count = rows});
  EXPECT_EQ(batched_products(graph, 0), 2U);
  for (std::size_t n = 1; n < graph.nodes().size(); ++n) EXPECT_EQ(batched_products(graph, n), n == 1 ? 2U : 1U) << n;
}

TEST(ProductBatches, HaveAMostOfProducts) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {kRows, kWidth}});
  for (std::size_t i = 0; i < kMostBatched + 3; ++i) {
    const std::string name = "map" + std::to_string(i);
    linear(graph, name, x, graph.add_parameter(name + ".w", {DType::kF32, {kWidth, kWidth}}), kNoValue, kNoValue);
  }
  EXPECT_EQ(batched_products(graph, 0), kMostBatched);
  EXPECT_EQ(batched_products(graph, kMostBatched), 3U);
}

}  // namespace
}  // namespace plimsoll::test
