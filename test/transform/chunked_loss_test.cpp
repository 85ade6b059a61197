#include "transform/chunked_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autodiff/autodiff.h"
#include "graph/build.h"
#include "transform/early_updates.h"
#include "transform/optimizer.h"
#include "transform/reference_outputs.h"

namespace plimsoll::test {
namespace {

// In double, in which sums chunk by chunk are the same up to rounding.
constexpr DType kType = DType::kF64;
constexpr std::int64_t kRows = 150, kWidth = 4, kClasses = 40;

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

// A map, a head over many classes, and what is made of its logits.
struct Model {
  explicit Model(bool scores, std::int64_t classes = kClasses) {
    const ValueId rows = graph.add_input("rows", {DType::kI32, {1}});
    const ValueId x = graph.add_input("x", {kType, {kRows, kWidth}});
    const ValueId inner = graph.add_parameter("inner", {kType, {kWidth, kWidth}});
    const ValueId weight = graph.add_parameter("weight", {kType, {classes, kWidth}});
    trained = {inner, weight};
    const ValueId hidden = linear(graph, "hidden", x, inner, kNoValue, rows);
    logits = linear(graph, "head", hidden, weight, kNoValue, rows);
    const ValueId labels = graph.add_input("labels", {DType::kI32, {kRows}});
    const ValueId scale = graph.add_input("loss_scale", {kType, {1}});
    loss = graph.add_node({.op = Op::kCrossEntropy,
                           .name = "loss",
                           .attributes = CrossEntropyAttributes{},
                           .inputs = {logits, labels, scale},
                           .row_count = rows})[0];
    graph.mark_output(loss);
    const ValueId of_labels =
        add_single(graph, {.op = Op::kLabelScores, .name = "scores", .inputs = {logits, labels}, .row_count = rows});
    if (scores) graph.mark_output(of_labels);
  }
  std::map<ValueId, Gradient> append_gradients() {
    const Seed seed = loss_seed(graph, loss);
    return append_backward(graph, {&seed, 1}, trained);
  }

  Graph graph;
  ValueId logits, loss;
  std::vector<ValueId> trained{};
};

Graph with_gradients() {
  Model model(false);
  for (const auto& [parameter, gradient] : model.append_gradients()) model.graph.mark_output(gradient.dense);
  return std::move(model.graph);
}

std::vector<std::vector<double>> run(const Graph& graph, std::int64_t rows, double keep = 1) {
  return reference_outputs(graph, [=](const Value& source, std::vector<double>& values) {
    if (source.name == "rows") values = {static_cast<double>(rows)};
    if (source.name == "loss_scale") values = {0.25};
    if (source.name == "keep_gradients") values = {keep};
    if (source.name != "labels") return;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 7 == 2 ? -100 : static_cast<double>(i * 11 % kClasses);
    }
  });
}

void expect_same(const Graph& found, const Graph& expected, double keep = 1) {
  for (const std::int64_t rows : {0, 1, 63, 64, 65, 128, 150}) {
    const auto a = run(found, rows, keep), b = run(expected, rows, keep);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].size(), b[i].size());
      for (std::size_t e = 0; e < a[i].size(); ++e) {
        ASSERT_NEAR(a[i][e], b[i][e], 1e-12 * (1 + std::abs(b[i][e]))) << "output " << i << ", " << rows << " rows";
      }
    }
  }
}

std::int64_t most_logits(const Graph& graph) {
  std::int64_t most = 0;
  for (const Value& value : graph.values()) {
    if (value.producer == kNoNode || value.type.shape.rank() != 2 || value.type.shape[1] != kClasses) continue;
    most = std::max(most, value.type.shape[0]);
  }
  return most;
}

TEST(ChunkedLoss, ChunksHaveLogitsAsLargeAsTheRows) {
  EXPECT_EQ(chunk_rows(8192, 4096, 128256, DType::kF32), 320);
  EXPECT_EQ(chunk_rows(1024, 896, 151936, DType::kF32), 64);
  EXPECT_EQ(chunk_rows(1024, 896, 151936, DType::kBF16), 128);
  EXPECT_EQ(chunk_rows(40, 896, 151936, DType::kF32), 40);
  EXPECT_EQ(chunk_rows(100, 8, 0, DType::kF32), 100);
}

TEST(ChunkedLoss, ResultsAreThoseOfTheWhole) {
  const Graph whole = with_gradients(), cut = chunk_loss(whole);
  verify(cut);
  EXPECT_EQ(count(cut, Op::kCrossEntropy), 3);
  EXPECT_EQ(count(cut, Op::kLabelScores), 0);  // nobody reads them
  EXPECT_EQ(most_logits(cut), 64);
  expect_same(cut, whole);
}

TEST(ChunkedLoss, ScoresOfEvaluationToo) {
  const Graph whole = Model(true).graph, cut = chunk_loss(whole);
  verify(cut);
  EXPECT_EQ(count(cut, Op::kLabelScores), 3);
  EXPECT_EQ(most_logits(cut), 64);
  expect_same(cut, whole);
}

TEST(ChunkedLoss, GradientsAreAddedToEarlierOnes) {
  Model model(false);
  std::map<ValueId, Gradient> gradients = model.append_gradients();
  Graph whole = accumulate_gradients(model.graph, 0, gradients);
  for (const auto& [parameter, gradient] : gradients) whole.mark_output(gradient.dense);
  const Graph cut = chunk_loss(whole);
  verify(cut);
  EXPECT_EQ(count(cut, Op::kLinearWeightGrad), 4);
  for (const double keep : {0.0, 1.0}) expect_same(cut, whole, keep);
}

// In two backwards the loss is the first one's, and sums over chunks begin anew.
TEST(ChunkedLoss, MayBeRepeated) {
  const Graph whole = with_gradients(), twice = repeat_backward(chunk_loss(whole));
  EXPECT_EQ(count(twice, Op::kCrossEntropy), 6);
  for (const ValueId output : twice.outputs()) {
    EXPECT_FALSE(twice.node(twice.value(output).producer).name.ends_with(".second"));
  }
  expect_same(twice, whole);
}

// A teacher's loss is added to the student's in forward, before there are gradients to compute it with.
TEST(ChunkedLoss, ASumOfLossesInForwardKeepsThemWhole) {
  Model model(false);
  const ValueId more = model.graph.add_input("more", {kType, {1}});
  model.graph.mark_output(add(model.graph, "sum", model.loss, more, kNoValue));
  EXPECT_GT(count(chunk_loss(model.graph), Op::kTakeRows), 0);  // an evaluation's
  for (const auto& [parameter, gradient] : model.append_gradients()) model.graph.mark_output(gradient.dense);
  const Graph cut = chunk_loss(model.graph);
  EXPECT_EQ(count(cut, Op::kTakeRows), 0);
  expect_same(cut, model.graph);
}

TEST(ChunkedLoss, OthersThatReadLogitsKeepThemWhole) {
  Model model(false);
  model.graph.mark_output(model.logits);
  EXPECT_EQ(count(chunk_loss(model.graph), Op::kTakeRows), 0);
  // Few classes are not worth it.
  EXPECT_EQ(count(chunk_loss(Model(false, 2 * kWidth).graph), Op::kTakeRows), 0);
}

}  // namespace
}  // namespace plimsoll::test
