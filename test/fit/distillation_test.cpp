// A teacher beside a student, as graphs.
#include "transform/distillation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/autodiff.h"
#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

constexpr ModelCapacity kCapacity{.samples = 2, .text_rows = 12};

// The rows of a micro-batch that is full.
double all_rows() {
  for (const InputSpec& input : layoutlmv3(small_config()).inputs(kCapacity, DType::kF32)) {
    if (input.name == input::kRows) return static_cast<double>(input.count);
  }
  return 0;
}

// Numbers for every source: small ones for what is floating; for integers what keeps them in their ranges.
void fill(GraphRunner& runner, const Graph& graph, double seed) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != kNoNode) continue;
    const std::int64_t count = value.type.shape.elements();
    std::vector<double> numbers(static_cast<std::size_t>(count), 0);
    const bool of_teacher = value.name.starts_with(kTeacherPrefix);
    if (is_floating(value.type.dtype)) {
      // A parameter's numbers follow from its place in its model and its shape, so that equal models are equal.
      for (std::int64_t n = 0; n < count; ++n) {
        numbers[static_cast<std::size_t>(n)] =
            0.1 * std::sin((of_teacher ? seed : 1.0) + 0.7 * static_cast<double>(n) +
                           static_cast<double>(value.name.size() - (of_teacher ? kTeacherPrefix.size() : 0)));
      }
      if (value.name == "loss_scale") numbers = {0.125};
      if (value.name == kRowLossScaleInput) numbers = {1 / all_rows()};
    } else if (value.name == "labels") {
      for (std::int64_t n = 0; n < count; ++n) numbers[static_cast<std::size_t>(n)] = static_cast<double>(n % 3);
    }
    runner.set(static_cast<ValueId>(i), numbers);
  }
  for (const InputSpec& input : layoutlmv3(small_config()).inputs(kCapacity, DType::kF32)) {
    const auto count = static_cast<double>(input.count);
    if (input.full == InputSpec::Full::kCount) runner.set(input.name, std::vector<double>{count});
    if (input.full == InputSpec::Full::kOffsets) runner.set(input.name, std::vector<double>{0, count, count});
  }
}

struct Both {
  ModelGraph student, teacher;
  StudentGraph learning;
  TeacherGraph teaching;

  Both(const LabelledConfig& small, const LabelledConfig& large)
      : student(layoutlmv3(small).build(kCapacity, false)), teacher(layoutlmv3(large).build(kCapacity, false)) {
    learning = {&student.graph, student.loss, student.trained, layoutlmv3(small).encoder().layer_outputs()};
    teaching = {&teacher.graph, teacher.logits, layoutlmv3(large).encoder().layer_outputs()};
  }
};

double loss_of(const GraphRunner& runner, const std::string& name) { return runner.made(name + ":0").front(); }

// A model that is its own teacher has nothing to learn from it; from another one it has, and the sum is that of all.
TEST(DistilledGraph, LossesAreThoseOfWhatDiffers) {
  const Both both(small_config(), small_config());
  const Distilled distilled = distil(both.learning, both.teaching, {});
  EXPECT_NO_THROW(verify(distilled.graph));
  EXPECT_EQ(distilled.trained.size(), both.student.trained.size());
  ReferenceBackend backend;
  for (const double seed : {1.0, 2.0}) {
    GraphRunner runner(distilled.graph, backend);
    fill(runner, distilled.graph, seed);
    runner.run();
    const double own = loss_of(runner, "loss");
    double all = 0;
    for (const ValueId loss : distilled.losses) all += runner.made(loss).front();
    EXPECT_NEAR(runner.made(distilled.loss).front(), all, 1e-5 * all);
    if (seed == 1.0) {
      EXPECT_NEAR(all, own, 1e-6 * own);
    } else {
      EXPECT_GT(all, own + 1e-4);
    }
  }
}

// However many rows are labelled, the loss of hidden states is a mean over rows, columns and layers.
TEST(DistilledGraph, TheLossOfStatesIsAMean) {
  const Both both(small_config(), small_config());
  const Distilled distilled = distil(both.learning, both.teaching, {.logits = 0, .hidden = 3, .relations = 0});
  ReferenceBackend backend;
  GraphRunner runner(distilled.graph, backend);
  fill(runner, distilled.graph, 2.0);
  runner.run();
  double found = 0, mean = 0;
  for (const std::string& name : both.learning.layers) {
    const std::string output = name + ":0";
    const std::vector<double> own = runner.made(output), taught = runner.made(std::string(kTeacherPrefix) + output);
    ASSERT_EQ(own.size(), taught.size());
    double sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i) sum += (own[i] - taught[i]) * (own[i] - taught[i]);
    mean += sum / static_cast<double>(own.size()) / static_cast<double>(both.learning.layers.size());
  }
  for (std::size_t layer = 0; layer < both.learning.layers.size(); ++layer) {
    found += loss_of(runner, fmt::format("distillation.hidden.{}", layer));
  }
  EXPECT_NEAR(found, 3 * mean, 1e-5 * found);
}

// Nothing of the teacher gets a gradient, and what is not compared is not computed.
TEST(DistilledGraph, TheTeacherOnlyComputesWhatIsCompared) {
  const Both both(small_config(), small_config());
  Distilled distilled = distil(both.learning, both.teaching, {.logits = 0, .hidden = 0, .relations = 1});
  for (const Node& node : distilled.graph.nodes()) {
    EXPECT_FALSE(node.name.starts_with("teacher.classifier")) << node.name;
  }
  std::vector<Seed> seeds;
  for (const ValueId loss : distilled.losses) seeds.push_back(loss_seed(distilled.graph, loss));
  append_backward(distilled.graph, seeds, distilled.trained);
  for (const Node& node : distilled.graph.nodes()) {
    EXPECT_TRUE(node.phase == Phase::kForward || !node.name.starts_with(kTeacherPrefix)) << node.name;
  }
  EXPECT_NO_THROW(verify(distilled.graph));
}

// Inputs that hold what the teacher's nodes compute give the same losses, bit for bit, without its parameters.
TEST(DistilledGraph, InputsTakeThePlaceOfTheTeachersNodes) {
  const Both both(small_config(), small_config());
  const Distilled computed = distil(both.learning, both.teaching, {});
  const Distilled brought = distil(both.learning, both.teaching, {}, TeacherValues::kInputs);
  EXPECT_NO_THROW(verify(brought.graph));
  ReferenceBackend backend;
  GraphRunner whole(computed.graph, backend), half(brought.graph, backend);
  fill(whole, computed.graph, 2.0);
  fill(half, brought.graph, 2.0);
  whole.run();
  int inputs = 0;
  for (const Value& value : brought.graph.values()) {
    if (!value.name.starts_with(kTeacherPrefix)) continue;
    ASSERT_EQ(value.role, Role::kInput) << value.name;
    half.set(value.name, whole.made(value.name));
    ++inputs;
  }
  EXPECT_EQ(inputs, static_cast<int>(compared_values(both.learning, both.teaching, {}).size()));
  half.run();
  EXPECT_EQ(half.made(brought.loss), whole.made(computed.loss));
}

TEST(DistilledGraph, WhatCannotBeComparedIsSaid) {
  LabelledConfig other = small_config();
  other.labels.push_back("MORE");
  const Both labels(small_config(), other);
  EXPECT_NE(distillation_fault(labels.learning, labels.teaching, {}), "");
  EXPECT_EQ(distillation_fault(labels.learning, labels.teaching, {.logits = 0}), "");
}

}  // namespace
}  // namespace plimsoll::test
