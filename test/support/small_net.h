// A small step with the features of models' graphs: a table with row gradients, layer norms, dropout, a residual, an
// MLP, gathered rows, and row counts below the capacities.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autodiff/autodiff.h"
#include "graph/build.h"
#include "support/graph_runner.h"
#include "transform/optimizer.h"

namespace plimsoll::test {

using Data = std::map<std::string, std::vector<double>>;

inline std::vector<double> numbers(std::int64_t count, double seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    // Values are rounded to float, so every backend starts from the same ones.
    values.push_back(static_cast<double>(static_cast<float>(std::sin(seed + 1.3 * static_cast<double>(i)))));
  }
  return values;
}

struct SmallNet {
  static constexpr std::int64_t kRows = 6, kTableRows = 7, kWidth = 8;

  Graph graph;
  ValueId loss = kNoValue;
  Gradients gradients;

  // With `backward` it has the gradients of all parameters.
  explicit SmallNet(DType dtype = DType::kF32, bool backward = true) : dtype_(dtype) {
    const ValueId rows = integers("rows", {1}), picked = integers("picked", {1});
    const ValueId row_keys = integers("row_keys", {kRows, 2}), dropout_key = integers("dropout_key", {2});
    const ValueId table = parameter("table.weight", {kTableRows, kWidth});
    const ValueId x =
        embedding(graph, "lookup", table, integers("ids", {kRows}), {.padding_idx = 1, .row_gradient = true}, rows);
    const ValueId first = norm("first.LayerNorm", x, rows);
    const ValueId dropped = dropout(graph, "dropout", first, row_keys, dropout_key, {.p = 0.25, .site = 3}, rows);
    const ValueId expanded = dense("expand", dropped, 12, rows);
    const ValueId gelu = add_single(graph, {.op = Op::kGelu, .name = "gelu", .inputs = {expanded}, .row_count = rows});
    const ValueId sum = add(graph, "residual", dense("shrink", gelu, kWidth, rows), dropped, rows);
    const ValueId second = norm("second.LayerNorm", sum, rows);
    const ValueId text = add_single(graph, {.op = Op::kGatherRows,
                                            .name = "picks",
                                            .inputs = {second, integers("index", {4}), integers("inverse", {kRows})},
                                            .row_count = picked});
    const ValueId logits = dense("classifier", text, 3, picked);
    loss = graph.add_node({.op = Op::kCrossEntropy,
                           .name = "loss",
                           .attributes = CrossEntropyAttributes{},
                           .inputs = {logits, integers("labels", {4}), graph.add_input("loss_scale", {dtype, {1}})},
                           .row_count = picked})[0];
    graph.mark_output(loss);
    if (!backward) return;
    const Seed seed = loss_seed(graph, loss);
    gradients = append_backward(graph, {&seed, 1}, parameters);
  }

  std::vector<ValueId> parameters;

  // Returns a batch: each `which` = 0, 1, … has other words, other labels, and another number of rows.
  static Data batch(int which) {
    const bool even = which % 2 == 0;
    Data data;
    data["rows"] = {even ? 5.0 : 4.0};
    data["picked"] = {even ? 3.0 : 2.0};
    data["ids"] = even ? std::vector<double>{3, 1, 6, 3, 0} : std::vector<double>{6, 2, 6, 1};
    data["row_keys"] = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1};
    data["row_keys"].resize(static_cast<std::size_t>(2 * data["rows"][0]));
    data["dropout_key"] = {11, static_cast<double>(which)};
    data["index"] = even ? std::vector<double>{4, 0, 2} : std::vector<double>{1, 3};
    data["inverse"] = even ? std::vector<double>{1, -1, 2, -1, 0, -1} : std::vector<double>{-1, 0, -1, 1, -1, -1};
    data["labels"] = even ? std::vector<double>{2, -100, 0} : std::vector<double>{1, 2};
    data["loss_scale"] = {0.25};
    return data;
  }

  // Returns every parameter's values, derived from its name.
  Data weights() const {
    Data data;
    for (const ValueId id : parameters) {
      double seed = 0;
      for (const char c : graph.value(id).name) seed = seed * 0.7 + static_cast<double>(c);
      data[graph.value(id).name] = numbers(graph.type(id).shape.elements(), seed);
    }
    return data;
  }

 private:
  ValueId integers(const char* name, Shape shape) { return graph.add_input(name, {DType::kI32, shape}); }
  ValueId parameter(const std::string& name, Shape shape) {
    parameters.push_back(graph.add_parameter(name, {dtype_, shape}));
    return parameters.back();
  }
  ValueId norm(const std::string& name, ValueId x, ValueId rows) {
    const ValueId gamma = parameter(name + ".weight", {kWidth}), beta = parameter(name + ".bias", {kWidth});
    return layer_norm(graph, name, x, gamma, beta, 1e-5, rows).y;
  }
  ValueId dense(const std::string& name, ValueId x, std::int64_t width, ValueId rows) {
    const ValueId weight = parameter(name + ".weight", {width, graph.type(x).shape[1]});
    return linear(graph, name, x, weight, parameter(name + ".bias", {width}), rows);
  }

  DType dtype_;
};

inline void set_all(GraphRunner& runner, const Data& data) {
  for (const auto& [name, values] : data) runner.set(name, values);
}

// Returns a gradient as a dense tensor: rows are put into a table of zeros.
inline std::vector<double> dense_gradient(const Graph& graph, const GraphRunner& runner, ValueId parameter,
                                          const Gradient& gradient) {
  if (!gradient.by_rows()) return runner.made(gradient.dense);
  const Shape shape = graph.type(parameter).shape;
  std::vector<double> table(static_cast<std::size_t>(shape.elements()), 0.0);
  const auto width = static_cast<std::size_t>(shape[1]);
  const std::vector<double>&ids = runner.made(gradient.row_ids), &rows = runner.made(gradient.rows);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::size_t c = 0; c < width; ++c) {
      table[static_cast<std::size_t>(ids[i]) * width + c] += rows[i * width + c];
    }
  }
  return table;
}

}  // namespace plimsoll::test
