// Compares the reference's forward kernels, AdamW, Adafactor and attention's gradients with PyTorch and `transformers`
// (test/data/ops.safetensors, by tools/make_op_golden.py): finite differences cannot detect a wrong forward formula.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "backend/compare.h"
#include "backend/reference/reference_backend.h"
#include "formats/safetensors.h"
#include "graph/update_form.h"
#include "harness/paths.h"

namespace plimsoll::test {
namespace {

// Both sides use float64: the differences are a few roundings of sums of tens of terms.
constexpr Tolerance kDouble = {.relative = 1e-13, .absolute = 1e-14, .reason = "float64 on both sides"};

class OpGolden : public testing::Test {
 protected:
  OpGolden() : file_(test_data_dir() / "ops.safetensors") {}

  std::vector<double> golden(const std::string& name) const {
    const TensorType& type = file_.at(name).type;
    std::vector<std::byte> bytes(type.bytes());
    file_.read(name, bytes);
    return to_doubles(TensorView(type, bytes.data()), type.shape.elements());
  }
  // Adds a source with the golden tensor of that name.
  ValueId source(const std::string& name, Role role = Role::kInput) {
    return source(name, file_.at(name).type, golden(name), role);
  }
  ValueId source(const std::string& name, TensorType type, std::vector<double> values, Role role = Role::kInput) {
    data_[name] = std::move(values);
    return role == Role::kState ? graph_.add_state(name, type) : graph_.add_input(name, type);
  }
  void run() {
    runner_.emplace(graph_, backend_);
    for (const auto& [name, values] : data_) runner_->set(name, values);
    runner_->run();
  }
  void expect_golden(ValueId value, const std::string& name, const Tolerance& tolerance = kDouble) {
    EXPECT_LE(used_tolerance(runner_->made(value), golden(name), tolerance), 1) << name;
  }

  SafetensorsReader file_;
  Graph graph_;
  std::optional<GraphRunner> runner_;

 private:
  ReferenceBackend backend_;
  std::map<std::string, std::vector<double>> data_;
};

TEST_F(OpGolden, Attention) {
  const ValueId q = source("attention.q"), k = source("attention.k"), v = source("attention.v");
  const AttentionContext context{.sample_offsets = source("attention.sample_offsets"),
                                 .key_mask = source("key_mask", {DType::kI32, {15}}, std::vector<double>(15, 1)),
                                 .row_keys = source("row_keys", {DType::kI32, {15, 2}}, {}),
                                 .dropout_key = source("dropout_key", {DType::kI32, {2}}, {}),
                                 .relative_coordinates = source("attention.relative_coordinates"),
                                 .position_table = source("attention.position_table"),
                                 .x_table = source("attention.x_table"),
                                 .y_table = source("attention.y_table")};
  const ValueId output =
      attention(graph_, "attention", q, k, v, context, {.heads = 3, .max_position_distance = 16}, kNoValue);
  const Seed seed{.value = output, .gradient = source("attention.doutput")};
  const std::vector<ValueId> wanted = {q, k, v, context.position_table, context.x_table, context.y_table};
  const auto gradients = append_backward(graph_, {&seed, 1}, wanted);
  run();
  expect_golden(output, "attention.output");
  const std::array<std::string, 6> names = {"dq", "dk", "dv", "dposition_table", "dx_table", "dy_table"};
  for (std::size_t i = 0; i < names.size(); ++i) expect_golden(gradients.at(wanted[i]).dense, "attention." + names[i]);
}

TEST_F(OpGolden, SpatialEmbedding) {
  std::vector<ValueId> inputs;
  for (const std::string table : {"x", "y", "h", "w"}) {
    const std::int64_t width = table == "x" || table == "y" ? 3 : 6;
    std::vector<double> values(static_cast<std::size_t>(1024 * width), 0.0);
    const std::vector<double> rows = golden("spatial_embedding." + table + "_rows");
    const std::vector<double> stored = golden("spatial_embedding." + table + "_values");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::int64_t c = 0; c < width; ++c) {
        values[static_cast<std::size_t>(static_cast<std::int64_t>(rows[i]) * width + c)] =
            stored[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)];
      }
    }
    inputs.push_back(source(table, {DType::kF64, {1024, width}}, values));
  }
  const ValueId y = spatial_embedding(graph_, "y", {inputs[0], inputs[1], inputs[2], inputs[3]},
                                      source("spatial_embedding.bbox"), false, kNoValue);
  run();
  expect_golden(y, "spatial_embedding.output", {});
}

TEST_F(OpGolden, PatchifyAndLinearAreAConvolution) {
  const ValueId patches = add_single(
      graph_,
      {.op = Op::kPatchify, .name = "patches", .attributes = PatchAttributes{4}, .inputs = {source("patches.pixels")}});
  const ValueId y = linear(graph_, "y", patches, source("patches.weight"), source("patches.bias"), kNoValue);
  run();
  expect_golden(y, "patches.output");
}

TEST_F(OpGolden, RowWise) {
  const ValueId x = source("layer_norm.x");
  const ValueId normed =
      layer_norm(graph_, "norm", x, source("layer_norm.gamma"), source("layer_norm.beta"), 1e-5, kNoValue).y;
  const ValueId gelu = add_single(graph_, {.op = Op::kGelu, .name = "gelu", .inputs = {x}});
  const ValueId tanh = add_single(graph_, {.op = Op::kTanh, .name = "tanh", .inputs = {x}});
  const ValueId scale = source("scale", {DType::kF64, {1}}, {0.125});
  const ValueId loss = graph_.add_node({.op = Op::kCrossEntropy,
                                        .name = "loss",
                                        .attributes = CrossEntropyAttributes{},
                                        .inputs = {x, source("cross_entropy.labels"), scale}})[0];
  run();
  expect_golden(normed, "layer_norm.output");
  expect_golden(gelu, "gelu.output");
  expect_golden(tanh, "tanh.output");
  expect_golden(loss, "cross_entropy.loss");
}

TEST_F(OpGolden, ThreeClippedAdamWSteps) {
  ValueId parameter = source("adamw.parameter", Role::kState);
  const TensorType type = graph_.type(parameter);
  const std::vector<double> zeros(static_cast<std::size_t>(type.shape.elements()), 0.0);
  ValueId m = source("m", type, zeros, Role::kState), v = source("v", type, zeros, Role::kState);
  const ValueId learning_rate = source("learning_rate", {DType::kF32, {1}}, {2e-3});
  std::vector<std::vector<ValueId>> steps;
  std::vector<ValueId> norms;
  for (int step = 1; step <= 3; ++step) {
    const std::string number = std::to_string(step);
    const ValueId gradient = source("adamw.gradient_" + number);
    const ValueId squares =
        add_single(graph_, {.op = Op::kSumSquares, .name = "squares" + number, .inputs = {gradient}});
    const ValueId limit = source("limit" + number, {DType::kF32, {1}}, {step < 3 ? 1.0 : 100.0});
    const auto norm = graph_.add_node({.op = Op::kGradientNorm,
                                       .name = "norm" + number,
                                       .attributes = GradientNormAttributes{},
                                       .inputs = {limit, squares}});
    norms.push_back(norm[0]);
    steps.push_back(graph_.add_node(
        {.op = Op::kAdamW,
         .name = "adamw" + number,
         .attributes = AdamWAttributes{.weight_decay = 0.01},
         .inputs = {parameter, m, v, gradient, learning_rate,
                    source("step" + number, {DType::kI32, {1}}, {static_cast<double>(step)}), norm[1]}}));
    parameter = steps.back()[0];
    m = steps.back()[1];
    v = steps.back()[2];
  }
  run();
  // PyTorch sums a norm's squares in float.
  const Tolerance float_norm{.relative = 3e-7, .absolute = 0, .reason = "a float sum of 24 squares"};
  const Tolerance float_update{
      .relative = 2e-7, .absolute = 1e-7, .reason = "float, with clip factors a rounding apart"};
  for (int step = 1; step <= 3; ++step) {
    const std::string number = std::to_string(step);
    expect_golden(norms[static_cast<std::size_t>(step) - 1], "adamw.norm_" + number, float_norm);
    expect_golden(steps[static_cast<std::size_t>(step) - 1][0], "adamw.parameter_" + number, float_update);
  }
  expect_golden(m, "adamw.m_3", float_update);
  expect_golden(v, "adamw.v_3", float_update);
}

// "flat stack" is the stack held as a matrix, like the patches' convolution: only its states show that it is a stack.
TEST_F(OpGolden, ThreeAdafactorSteps) {
  const ValueId learning_rate = source("learning_rate", {DType::kF32, {1}}, {0x1p-9});
  const ValueId clip = source("clip", {DType::kF32, {1}}, {1.0});
  std::vector<std::pair<std::string, ValueId>> values;  // the golden tensor's name, and the value to compare
  for (const std::string name : {"matrix", "stack", "flat stack", "vector"}) {
    const bool is_flat = name == "flat stack";
    const std::string golden_name = "adafactor." + (is_flat ? "stack" : name);
    const Shape shape = file_.at(golden_name).type.shape;
    const Shape held = is_flat ? Shape{shape[0], shape.elements() / shape[0]} : shape;
    const auto held_source = [&](const std::string& tensor, Role role) {
      return source(name + tensor, {DType::kF64, held}, golden(tensor), role);
    };
    ValueId parameter = held_source(golden_name, Role::kState);
    std::vector<ValueId> states;
    const auto add_state = [&](const std::string& part, Shape part_shape) {
      const std::vector<double> zeros(static_cast<std::size_t>(part_shape.elements()), 0.0);
      states.push_back(source(name + part, {DType::kF64, part_shape}, zeros, Role::kState));
    };
    if (shape.rank() < 2) {
      add_state(".exp_avg_sq", shape);
    } else {
      add_state(".exp_avg_sq_row", row_mean_shape(shape));
      add_state(".exp_avg_sq_col", column_mean_shape(shape));
    }
    for (const std::string step : {"1", "2", "3"}) {
      std::vector<ValueId> inputs = {parameter};
      inputs.insert(inputs.end(), states.begin(), states.end());
      const ValueId gradient = held_source(golden_name + ".gradient_" + step, Role::kInput);
      const ValueId step_value = source(name + ".step" + step, {DType::kI32, {1}}, {std::stod(step)});
      inputs.insert(inputs.end(), {gradient, learning_rate, step_value, clip});
      const auto outputs = graph_.add_node({.op = Op::kAdafactor,
                                            .name = name + step,
                                            .attributes = AdafactorAttributes{.weight_decay = 0.125},
                                            .inputs = inputs});
      parameter = outputs[0];
      states.assign(outputs.begin() + 1, outputs.end());
      values.emplace_back(golden_name + "_" + step, parameter);
    }
    const std::vector<std::string> parts = shape.rank() < 2
                                               ? std::vector<std::string>{".exp_avg_sq"}
                                               : std::vector<std::string>{".exp_avg_sq_row", ".exp_avg_sq_col"};
    for (std::size_t i = 0; i < parts.size(); ++i) values.emplace_back(golden_name + parts[i], states[i]);
  }
  run();
  ASSERT_EQ(values.size(), 19U);
  for (const auto& [name, value] : values) expect_golden(value, name);
}

}  // namespace
}  // namespace plimsoll::test
