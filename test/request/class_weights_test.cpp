// Tests weights of classes in the loss: their numbers, and what an update's loss is divided by.
#include "request/class_weights.h"

#include <cmath>
#include <map>

#include "support/expect_error.h"
#include "train/trainer_fixture.h"

namespace plimsoll::test {
namespace {

const std::map<std::string, std::uint64_t> kCounts = {{"O", 6}, {"B-TOTAL", 2}};

TEST(ClassWeights, AreBalancedAsScikitLearnDoes) {
  ModelBundle bundle = small_model();
  set_class_weights(bundle, {.balanced = true}, kCounts);
  // compute_class_weight("balanced", classes=[0, 1], y=[0] * 6 + [1] * 2); I-TOTAL does not occur.
  EXPECT_EQ(bundle.config.task.loss.class_weights, (std::vector<float>{8.0F / 12, 2, 1}));
  EXPECT_EQ(class_weights_text(bundle.config.task), "O 0.6667, B-TOTAL 2, I-TOTAL 1");
}

TEST(ClassWeights, AreThoseThatAreNamed) {
  ModelBundle bundle = small_model();
  set_class_weights(bundle, {.named = {{"B-TOTAL", 5}, {"O", 0}}}, kCounts);
  EXPECT_EQ(bundle.config.task.loss.class_weights, (std::vector<float>{0, 5, 1}));
  expect_error<UsageError>(
      [&] {
        set_class_weights(bundle, {.named = {{"B-TOTL", 5}}}, kCounts);
      },
      {"--class-weights", "B-TOTL", "O, B-TOTAL, I-TOTAL", "did you mean B-TOTAL?"});
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL}) {
    expect_error<UsageError>(
        [&] {
          set_class_weights(bundle, {.named = {{"O", weight}}}, kCounts);
        },
        {"--class-weights", "O=", "finite number of 0 or more"});
  }
  expect_error<UsageError>(
      [&] {
        set_class_weights(bundle, {.named = {{"O", 0}, {"B-TOTAL", 0}}}, kCounts);
      },
      {"--class-weights", "nothing to learn", "O 0, B-TOTAL 0", "above 0"});
}

TEST(ClassWeights, AreForClassesOneOfWhichIsRight) {
  ModelBundle bundle = small_model();
  set_task(bundle, "question-answering");
  check_class_weights(bundle, {});
  expect_error<UsageError>([&] { check_class_weights(bundle, {.balanced = true}); },
                           {"--class-weights", "question-answering", "sequence-classification", "omit"});
}

// The losses of the first updates without dropout of the loss's own making: with weights w, the sum of w_y l_y divided
// by the sum of w_y, over the labels of the whole update.
std::vector<double> losses(const ClassWeightRequest& weights, std::int64_t micro_batch, LossOptions loss = {}) {
  const ScratchFolder folder;
  SmallRun run(folder.make("run"));
  run.class_weights = weights;
  run.loss = std::move(loss);
  run.micro_batch = micro_batch;
  run.options.learning_rate = 0;
  run.options.max_steps = 2;
  run.train();
  std::vector<double> found;
  for (const StepReport& report : run.reports) found.push_back(report.loss);
  return found;
}

TEST(ClassWeights, DivideTheLossByTheirSum) {
  const std::vector<double> plain = losses({}, 4);
  // One weight for all changes nothing, however large it is.
  const std::vector<double> same = losses({.named = {{"O", 7}, {"B-TOTAL", 7}, {"I-TOTAL", 7}}}, 4);
  // Only one of the two classes that occur; their weighted mean is what there is without weights.
  const std::vector<double> others = losses({.named = {{"B-TOTAL", 0}}}, 4), totals = losses({.named = {{"O", 0}}}, 4);
  const std::vector<double> weighted = losses({.named = {{"B-TOTAL", 3}}}, 4);
  const auto share = [&](std::size_t i) { return (plain[i] - others[i]) / (totals[i] - others[i]); };  // of totals
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(same[i], plain[i], 1e-6);
    EXPECT_GT(std::abs(totals[i] - others[i]), 1e-3);
    const double p = share(i);
    EXPECT_GT(p, 0.1);
    EXPECT_LT(p, 0.9);
    EXPECT_NEAR(weighted[i], (3 * p * totals[i] + (1 - p) * others[i]) / (3 * p + 1 - p), 2e-5);
  }
}

TEST(ClassWeights, DoNotDependOnTheMicroBatch) {
  for (const LossOptions& loss : {LossOptions{}, LossOptions{.label_smoothing = 0.1}, LossOptions{.focal_gamma = 2}}) {
    const ClassWeightRequest weights{.named = {{"B-TOTAL", 5}, {"O", 0.5}}};
    const std::vector<double> whole = losses(weights, 4, loss);
    for (const std::int64_t micro_batch : {1, 2}) {
      const std::vector<double> split = losses(weights, micro_batch, loss);
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(split[i], whole[i], 1e-5 * whole[i]);
    }
  }
}

TEST(ClassWeights, AreComparedWhenARunIsResumed) {
  const ScratchFolder folder;
  std::string expected;
  for (const bool stops : {false, true}) {
    SmallRun run(folder.make(stops ? "stopped" : "whole"));
    run.class_weights = {.balanced = true};
    run.evaluates = true;
    if (!stops) {
      run.train();
      expected = file_bytes(run.options.output_dir / "model.safetensors");
      continue;
    }
    EXPECT_THROW(run.train(std::nullopt, 3), InterruptedError);
    run.train(checkpoint_path(run.options.output_dir, 3));
    EXPECT_TRUE(file_bytes(run.options.output_dir / "model.safetensors") == expected);
    run.class_weights = {.named = {{"O", 0.25}}};
    testing::internal::CaptureStderr();
    run.train(checkpoint_path(run.options.output_dir, 3));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("class weights 0.25 1 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll::test
