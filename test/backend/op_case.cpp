#include "backend/op_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "backend/cuda/sizes/sums.h"
#include "base/dropout.h"
#include "base/philox.h"
#include "graph/partial_sums.h"
#include "tensor/block_code.h"

namespace plimsoll::test {

CaseBuilder::CaseBuilder(DType dtype, std::string_view case_name) : dtype_(dtype) {
  for (const char c : case_name) seed_ = seed_ * 31 + static_cast<unsigned char>(c);
}

double CaseBuilder::random() {
  const std::uint32_t index = drawn_++;
  if (index % 4 == 0) numbers_ = philox4x32({index / 4, 0, 0, 0}, {seed_, 7});
  return (numbers_[index % 4] >> 16) * 0x1p-16;
}

void CaseBuilder::add_sums(Node node, bool in_parts) {
  if (in_parts) node.attributes = with_partial_sums(node, cuda::possible_partial_sums(graph, node));
  graph.add_node(std::move(node));
}

std::int32_t CaseBuilder::random_integer(std::int32_t low, std::int32_t high) {
  return low + static_cast<std::int32_t>(random() * (high - low + 1));
}

ValueId CaseBuilder::floating(std::string name, TensorType type, std::int64_t real_rows, Range range, Role role) {
  const Shape& shape = type.shape;
  const ValueId value =
      role == Role::kState ? graph.add_state(std::move(name), type) : graph.add_input(std::move(name), type);
  Data data{.value = value, .values = {}};
  const std::int64_t elements = real_rows == kAllRows ? shape.elements() : real_rows * row_elements(shape);
  data.values.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) data.values.push_back(random_number(range));
  data_.push_back(std::move(data));
  return value;
}

ValueId CaseBuilder::tensor(std::string name, Shape shape, std::int64_t real_rows, Range range) {
  wanted_.push_back(floating(std::move(name), {dtype_, shape}, real_rows, range, Role::kInput));
  return wanted_.back();
}

ValueId CaseBuilder::constant(std::string name, Shape shape, std::int64_t real_rows, Range range) {
  return floating(std::move(name), {dtype_, shape}, real_rows, range, Role::kInput);
}

ValueId CaseBuilder::state(std::string name, Shape shape, std::int64_t real_rows, Range range) {
  return floating(std::move(name), {dtype_, shape}, real_rows, range, Role::kState);
}

ValueId CaseBuilder::wide_tensor(std::string name, Shape shape, Range range) {
  wanted_.push_back(floating(std::move(name), {wide(dtype_), shape}, kAllRows, range, Role::kInput));
  return wanted_.back();
}

ValueId CaseBuilder::wide_constant(std::string name, Shape shape, Range range) {
  return floating(std::move(name), {wide(dtype_), shape}, kAllRows, range, Role::kInput);
}

ValueId CaseBuilder::wide_state(std::string name, Shape shape, std::int64_t real_rows) {
  return floating(std::move(name), {wide(dtype_), shape}, real_rows, {}, Role::kState);
}

ValueId CaseBuilder::coded(std::string name, DType code, Shape shape) {
  const TensorType type{dtype_ == DType::kF64 ? dtype_ : code, shape};
  const auto columns = static_cast<std::size_t>(shape[1]);
  std::vector<float> row(columns);
  std::vector<std::byte> bytes(coded_row_bytes(code, shape[1]));
  Data data{.value = graph.add_parameter(std::move(name), type), .values = {}};
  for (std::int64_t r = 0; r < shape[0]; ++r) {
    for (float& value : row) value = static_cast<float>(2 * random() - 1);
    encode_row(code, row, bytes.data());
    decode_row(code, bytes.data(), 0, row);
    data.values.insert(data.values.end(), row.begin(), row.end());
  }
  data_.push_back(std::move(data));
  return data_.back().value;
}

ValueId CaseBuilder::integers(std::string name, Shape shape, std::vector<std::int32_t> list) {
  return values(std::move(name), {DType::kI32, shape}, {list.begin(), list.end()});
}

ValueId CaseBuilder::integer_state(std::string name, Shape shape, std::vector<std::int32_t> list) {
  return state_values(std::move(name), {DType::kI32, shape}, {list.begin(), list.end()});
}

ValueId CaseBuilder::state_values(std::string name, TensorType type, std::vector<double> list) {
  const ValueId value = graph.add_state(std::move(name), type);
  data_.push_back({value, std::move(list)});
  return value;
}

double CaseBuilder::random_number(Range range) {
  return double{static_cast<float>(range.low + (range.high - range.low) * random())};
}

ValueId CaseBuilder::values(std::string name, TensorType type, std::vector<double> list) {
  const ValueId value = graph.add_input(std::move(name), type);
  data_.push_back({value, std::move(list)});
  return value;
}

ValueId CaseBuilder::row_keys(std::int64_t capacity, std::int32_t rows) {
  std::vector<std::int32_t> keys;
  for (std::int32_t row = 0; row < rows; ++row) {
    keys.push_back(row / 5);                                              // sample
    keys.push_back(row % 5 < 3 ? row % 5 : kVisualCoordinate + row % 5);  // token
  }
  return integers("row_keys", {capacity, 2}, keys);
}

ValueId CaseBuilder::rows(std::int32_t count) {
  const std::string name = fmt::format("rows_{}", count);
  const ValueId known = graph.find_source(name);
  return known != kNoValue ? known : integers(name, {1}, {count});
}

void CaseBuilder::objective(ValueId output) { objectives_.push_back(output); }
void CaseBuilder::objective_loss(ValueId loss) { losses_.push_back(loss); }
void CaseBuilder::no_gradient(ValueId table, std::int64_t row) { no_gradient_[table] = row; }

void BuiltCase::set_data(GraphRunner& runner) const {
  for (const auto& [value, list] : data) runner.set(value, list);
}

BuiltCase OpCase::build(DType dtype, bool backward) const {
  CaseBuilder builder(dtype, name);
  describe(builder);
  for (const ValueId output : builder.objectives_) builder.graph.mark_output(output);
  for (const ValueId loss : builder.losses_) builder.graph.mark_output(loss);

  std::vector<Seed> seeds;
  std::vector<std::vector<double>> weights;
  for (const ValueId output : builder.objectives_) {
    // It is poisoned where the output is: a gradient has as many real rows as its value.
    const ValueId row_count = builder.graph.node(builder.graph.value(output).producer).row_count;
    std::int64_t real_rows = kAllRows;
    for (const auto& [value, list] : builder.data_) {
      if (value == row_count) real_rows = static_cast<std::int64_t>(list[0]);
    }
    const ValueId gradient =
        builder.floating(fmt::format("gradient_{}", output), builder.graph.type(output), real_rows, {}, Role::kInput);
    seeds.push_back({.value = output, .gradient = gradient});
    weights.push_back(builder.data_.back().values);
  }
  for (const ValueId loss : builder.losses_) seeds.push_back(loss_seed(builder.graph, loss));

  std::map<ValueId, Gradient> gradients;
  if (backward) {
    gradients = append_backward(builder.graph, seeds, builder.wanted_);
    for (const auto& [value, gradient] : gradients) {
      for (const ValueId output : {gradient.dense, gradient.row_ids, gradient.row_count, gradient.rows}) {
        if (output != kNoValue) builder.graph.mark_output(output);
      }
    }
  }
  return {.graph = std::move(builder.graph),
          .data = std::move(builder.data_),
          .objectives = std::move(builder.objectives_),
          .losses = std::move(builder.losses_),
          .weights = std::move(weights),
          .wanted = std::move(builder.wanted_),
          .no_gradient = std::move(builder.no_gradient_),
          .gradients = std::move(gradients)};
}

std::ostream& operator<<(std::ostream& stream, const OpCase& op_case) { return stream << op_case.name; }

std::string test_name(const OpCase& op_case) {
  std::string name = op_case.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::vector<OpCase> half_cases() {
  std::vector<OpCase> cases;
  for (const auto& group : {rows_cases(), elementwise_cases(), linear_cases(), normalisation_cases(), attention_cases(),
                            lookup_cases(), head_loss_cases()}) {
    cases.insert(cases.end(), group.begin(), group.end());
  }
  return cases;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = half_cases();
  for (const auto& group : {embedding_cases(), loss_cases(), update_cases()}) {
    cases.insert(cases.end(), group.begin(), group.end());
  }
  return cases;
}

}  // namespace plimsoll::test
