// Compares accumulated and row-wise updates with their dense counterparts, in double.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/compare.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/op_case.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kTableRows = 13, kWidth = 5, kPaddingId = 1;

std::vector<double> numbers(std::size_t count, double seed) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(seed + 1.7 * static_cast<double>(i)));
  return values;
}

std::vector<double> run_for(const Graph& graph, const std::map<std::string, std::vector<double>>& data,
                            ValueId result) {
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  for (const auto& [name, values] : data) runner.set(name, values);
  runner.run();
  return runner.made(result);
}

// Sums two micro-batches of one table's gradient and applies them in one AdamW step.
struct Batches {
  std::vector<double> ids[2] = {{4, 4, 1, 9, 0, 4}, {12, 9, 1, 3}};
  std::vector<double> dy[2] = {numbers(6 * kWidth, 0.5), numbers(4 * kWidth, 2.5)};
};

ValueId adamw_tail(Graph& graph, std::map<std::string, std::vector<double>>& data, std::vector<ValueId> inputs, Op op) {
  inputs.push_back(graph.add_input("learning_rate", {DType::kF32, {1}}));
  inputs.push_back(graph.add_input("step", {DType::kI32, {1}}));
  inputs.push_back(graph.add_input("clip", {DType::kF32, {1}}));
  data["learning_rate"] = {1e-2};
  data["step"] = {3};
  data["clip"] = {0.5};
  return graph.add_node({.op = op,
                         .name = "update",
                         .attributes = AdamWAttributes{.weight_decay = 0.01},
                         .inputs = std::move(inputs),
                         .phase = Phase::kUpdate})[0];
}

// Adds a table, its moments and both batches as sources.
std::vector<ValueId> add_table(Graph& graph, std::map<std::string, std::vector<double>>& data) {
  const Batches batches;
  std::vector<ValueId> table;
  for (const char* name : {"parameter", "m", "v"}) {
    table.push_back(graph.add_state(name, {DType::kF64, {kTableRows, kWidth}}));
    data[name] = numbers(static_cast<std::size_t>(kTableRows * kWidth), static_cast<double>(name[0]));
    if (name[0] == 'v') {
      for (double& value : data[name]) value *= value;
    }
  }
  for (int batch = 0; batch < 2; ++batch) {
    const auto rows = static_cast<std::int64_t>(batches.ids[batch].size());
    const std::string number = std::to_string(batch);
    graph.add_input("dy" + number, {DType::kF64, {rows, kWidth}});
    graph.add_input("ids" + number, {DType::kI32, {rows}});
    graph.add_input("keep" + number, {DType::kI32, {1}});
    data["dy" + number] = batches.dy[batch];
    data["ids" + number] = batches.ids[batch];
    data["keep" + number] = {static_cast<double>(batch)};  // the first overwrites the old sum
  }
  return table;
}

std::vector<double> dense_update() {
  Graph graph;
  std::map<std::string, std::vector<double>> data;
  std::vector<ValueId> inputs = add_table(graph, data);
  ValueId sum = graph.add_state("sum", {DType::kF64, {kTableRows, kWidth}});  // NaN until overwritten
  for (const std::string number : {"0", "1"}) {
    const ValueId gradient =
        add_single(graph, {.op = Op::kEmbeddingGrad,
                           .name = "gradient" + number,
                           .attributes = EmbeddingAttributes{.padding_idx = kPaddingId, .table_rows = kTableRows},
                           .inputs = {graph.find_source("dy" + number), graph.find_source("ids" + number)}});
    sum = add_single(graph, {.op = Op::kAccumulate,
                             .name = "accumulate" + number,
                             .inputs = {sum, gradient, graph.find_source("keep" + number)}});
  }
  inputs.push_back(sum);
  const ValueId updated = adamw_tail(graph, data, inputs, Op::kAdamW);
  data["sum"] = {};
  return run_for(graph, data, updated);
}

std::vector<double> row_update() {
  Graph graph;
  std::map<std::string, std::vector<double>> data;
  std::vector<ValueId> inputs = add_table(graph, data);
  const std::int64_t capacity = 7;
  std::vector<ValueId> sum = {graph.add_state("sum_ids", {DType::kI32, {capacity}}),
                              graph.add_state("sum_count", {DType::kI32, {1}}),
                              graph.add_state("sum_rows", {DType::kF64, {capacity, kWidth}})};
  for (const std::string number : {"0", "1"}) {
    const std::vector<ValueId> gradient = graph.add_node(
        {.op = Op::kEmbeddingRowGrad,
         .name = "gradient" + number,
         .attributes = EmbeddingAttributes{.padding_idx = kPaddingId, .row_gradient = true, .table_rows = kTableRows},
         .inputs = {graph.find_source("dy" + number), graph.find_source("ids" + number)}});
    sum = graph.add_node({.op = Op::kMergeRowGrads,
                          .name = "merge" + number,
                          .inputs = {sum[0], sum[1], sum[2], gradient[0], gradient[1], gradient[2],
                                     graph.find_source("keep" + number)}});
  }
  inputs.insert(inputs.end(), sum.begin(), sum.end());
  const ValueId updated = adamw_tail(graph, data, inputs, Op::kAdamWRows);
  for (const char* name : {"sum_ids", "sum_count", "sum_rows"}) data[name] = {};
  return run_for(graph, data, updated);
}

TEST(RowGradients, UpdateATableAsDenseOnesDo) {
  const std::vector<double> dense = dense_update(), rows = row_update();
  ASSERT_EQ(dense.size(), static_cast<std::size_t>(kTableRows * kWidth));
  EXPECT_EQ(rows, dense);  // the same sums in the same order
  for (const double value : dense) EXPECT_TRUE(std::isfinite(value));
}

TEST(RowGradients, MoreRowsThanTheCapacityAreRefused) {
  Graph graph;
  const auto integers = [&](const char* name, std::int64_t count) {
    return graph.add_state(name, {DType::kI32, {count}});
  };
  const auto rows = [&](const char* name, std::int64_t count) {
    return graph.add_state(name, {DType::kF64, {count, 2}});
  };
  graph.add_node({.op = Op::kMergeRowGrads,
                  .name = "merge",
                  .inputs = {integers("sum_ids", 3), integers("sum_count", 1), rows("sum_rows", 3), integers("ids", 2),
                             integers("count", 1), rows("rows", 2), integers("keep", 1)}});
  ReferenceBackend backend;
  GraphRunner runner(graph, backend);
  runner.set("sum_ids", std::vector<double>{1, 2});
  runner.set("sum_count", std::vector<double>{2});
  runner.set("ids", std::vector<double>{3, 4});
  runner.set("count", std::vector<double>{2});
  runner.set("keep", std::vector<double>{1});
  EXPECT_THROW(runner.run(), InternalError);
}

// Two micro-batches through the weight gradient's own sum equal one of all rows.
TEST(WeightGradient, AddsMicroBatches) {
  const std::int64_t in = 7, out = 4;
  const auto gradient = [&](const std::vector<std::int64_t>& batch_rows) {
    Graph graph;
    std::map<std::string, std::vector<double>> data;
    data["sum"] = {};
    const std::vector<double> all_dy = numbers(9 * out, 0.1), all_x = numbers(9 * in, 0.9);
    ValueId sum = graph.add_state("sum", {DType::kF64, {out, in}});
    std::int64_t first = 0;
    for (std::size_t i = 0; i < batch_rows.size(); ++i) {
      const std::string number = std::to_string(i);
      const std::int64_t rows = batch_rows[i];
      const auto part = [&](const std::vector<double>& all, std::int64_t width) {
        return std::vector<double>(all.begin() + first * width, all.begin() + (first + rows) * width);
      };
      data["dy" + number] = part(all_dy, out);
      data["x" + number] = part(all_x, in);
      data["keep" + number] = {i == 0 ? 0.0 : 1.0};
      const ValueId dy = graph.add_input("dy" + number, {DType::kF64, {rows, out}});
      const ValueId x = graph.add_input("x" + number, {DType::kF64, {rows, in}});
      const ValueId keep = graph.add_input("keep" + number, {DType::kI32, {1}});
      sum = add_single(graph, {.op = Op::kLinearWeightGrad, .name = "dw" + number, .inputs = {dy, x, sum, keep}});
      first += rows;
    }
    return run_for(graph, data, sum);
  };
  const std::vector<double> once = gradient({9}), thrice = gradient({4, 2, 3});
  ASSERT_EQ(once.size(), static_cast<std::size_t>(in * out));
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(thrice[i], once[i], 1e-14);
}

TEST(Updates, DoNotDependOnTheNumberOfThreads) {
  for (const OpCase& op_case : update_cases()) {
    if (op_case.name.find("adamw") != 0 && op_case.name.find("adafactor") != 0) continue;
    SCOPED_TRACE(op_case.name);
    CpuBackend one(1), three(3);
    const BuiltCase built = op_case.build(DType::kF32, false);
    GraphRunner expected(built.graph, one), found(built.graph, three);
    built.set_data(expected);
    built.set_data(found);
    expected.run();
    found.run();
    expect_identical(built.graph, found, expected);
  }
}

}  // namespace
}  // namespace plimsoll::test
