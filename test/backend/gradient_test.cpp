// Compares gradient rules and the reference's backward kernels with finite differences of its forward, in double.
//
// A central difference over five points with step h has an error of h^4/30 times the fifth derivative, some 1e-13 for
// functions that vary over 1, and a rounding error of about 1e-16 * |objective| / h, some 1e-12 for the objectives of
// these cases. An error in a rule or a kernel is of the size of the gradient itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/op_case.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::test {
namespace {

constexpr double kLargestStep = 1e-3, kStepOfValues = 1e-2;
constexpr double kTolerance = 1e-9;  // relative to the largest element of the gradient, or to 1
// The number of elements tested in each tensor, and in those of a case with more elements than kLargeCase.
constexpr std::size_t kElementsTested = 48, kElementsTestedOfLarge = 10, kLargeCase = 5000;

double objective(const BuiltCase& built, GraphRunner& runner) {
  runner.run();
  double sum = 0;
  for (const ValueId loss : built.losses) sum += runner.made(loss).at(0);
  for (std::size_t i = 0; i < built.objectives.size(); ++i) {
    const std::vector<double>& output = runner.made(built.objectives[i]);
    EXPECT_EQ(output.size(), built.weights[i].size());
    for (std::size_t e = 0; e < output.size(); ++e) sum += output[e] * built.weights[i][e];
  }
  return sum;
}

const std::vector<double>& data_of(const BuiltCase& built, ValueId value) {
  return std::find_if(built.data.begin(), built.data.end(), [&](const auto& source) { return source.value == value; })
      ->values;
}

// Returns the gradient of `value` as a dense tensor.
std::vector<double> dense_gradient(const BuiltCase& built, const GraphRunner& runner, ValueId value) {
  const auto found = built.gradients.find(value);
  if (found == built.gradients.end()) return {};
  const Gradient& gradient = found->second;
  if (!gradient.by_rows()) {
    const bool is_seed = built.graph.value(gradient.dense).producer == kNoNode;  // add passes its gradient on
    return is_seed ? data_of(built, gradient.dense) : runner.made(gradient.dense);
  }
  const Shape& shape = built.graph.type(value).shape;
  std::vector<double> dense(static_cast<std::size_t>(shape.elements()), 0.0);
  const std::vector<double>& ids = runner.made(gradient.row_ids);
  const auto width = static_cast<std::size_t>(shape[1]);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(i == 0 || ids[i - 1] < ids[i]) << "ids ascend";
    std::copy_n(runner.made(gradient.rows).begin() + static_cast<std::ptrdiff_t>(i * width), width,
                dense.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(ids[i]) * width));
  }
  return dense;
}

// Returns up to `limit` elements with a gradient, evenly spread, then a few without.
std::vector<std::size_t> elements_to_test(const std::vector<double>& gradient, std::size_t limit) {
  std::vector<std::size_t> some, zero;
  for (std::size_t i = 0; i < gradient.size(); ++i) (gradient[i] != 0 ? some : zero).push_back(i);
  const auto thin = [](std::vector<std::size_t>& list, std::size_t length) {
    const std::size_t size = list.size();
    if (size <= length) return;
    for (std::size_t i = 0; i < length; ++i) list[i] = list[i * size / length];
    list.resize(length);
  };
  thin(some, limit);
  thin(zero, limit / 4);
  some.insert(some.end(), zero.begin(), zero.end());
  return some;
}

class GradientRule : public testing::TestWithParam<OpCase> {};

TEST_P(GradientRule, EqualsFiniteDifferences) {
  ReferenceBackend backend;
  const BuiltCase forward = GetParam().build(DType::kF64, false), both = GetParam().build(DType::kF64, true);
  GraphRunner backward(both.graph, backend), runner(forward.graph, backend);
  both.set_data(backward);
  backward.run();
  forward.set_data(runner);
  std::size_t total = 0;
  for (const ValueId wanted : both.wanted) total += data_of(both, wanted).size();
  const std::size_t limit = total > kLargeCase ? kElementsTestedOfLarge : kElementsTested;
  for (const ValueId wanted : both.wanted) {
    SCOPED_TRACE(both.graph.value(wanted).name);
    const std::vector<double>& values = data_of(forward, wanted);
    const std::vector<double> gradient = dense_gradient(both, backward, wanted);
    ASSERT_GE(gradient.size(), values.size());  // a gradient may define more rows than its value has: zeros
    EXPECT_TRUE(std::all_of(gradient.begin() + static_cast<std::ptrdiff_t>(values.size()), gradient.end(),
                            [](double value) { return value == 0; }));
    double largest = 1, step = 0;
    for (const double value : gradient) largest = std::max(largest, std::abs(value));
    for (const double value : values) step = std::max(step, std::abs(value) * kStepOfValues);
    step = std::min(step, kLargestStep);
    const auto without = both.no_gradient.find(wanted);
    std::vector<double> moved = values;
    const auto at = [&](std::size_t element, double distance) {
      moved[element] = values[element] + distance;
      runner.set(wanted, moved);
      moved[element] = values[element];
      return objective(forward, runner);
    };
    for (const std::size_t element : elements_to_test(gradient, limit)) {
      if (element >= values.size()) continue;
      const std::int64_t row = static_cast<std::int64_t>(element) / row_elements(both.graph.type(wanted).shape);
      if (without != both.no_gradient.end() && without->second == row) {
        EXPECT_EQ(gradient[element], 0) << "element " << element;
        continue;
      }
      const double near = at(element, step) - at(element, -step);
      const double far = at(element, 2 * step) - at(element, -2 * step);
      EXPECT_NEAR(gradient[element], (8 * near - far) / (12 * step), kTolerance * largest) << "element " << element;
    }
    runner.set(wanted, values);
  }
}

std::vector<OpCase> cases_with_gradients() {
  std::vector<OpCase> cases;
  std::vector<OpCase> all = all_cases();
  std::ranges::move(biased_cases(), std::back_inserter(all));
  for (const OpCase& op_case : all) {
    const BuiltCase built = op_case.build(DType::kF64, false);
    if (!built.wanted.empty() && !(built.objectives.empty() && built.losses.empty())) cases.push_back(op_case);
  }
  return cases;
}

std::string rule_test_name(const testing::TestParamInfo<OpCase>& parameter) { return test_name(parameter.param); }

INSTANTIATE_TEST_SUITE_P(Reference, GradientRule, testing::ValuesIn(cases_with_gradients()), rule_test_name);

}  // namespace
}  // namespace plimsoll::test
