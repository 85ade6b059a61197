// Tests what follows from a faulty update, by itself; nonfinite_test.cpp tests whole runs.
#include "train/update_faults.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll {
namespace {

StepFault made(bool forward, bool updated = false) {
  return {.kind = StepFault::Kind::kMade,
          .op = "layer_norm",
          .node = "encoder.LayerNorm",
          .tensor = "encoder.LayerNorm",
          .type = {DType::kF32, {8, 48}},
          .index = {3, 4},
          .value = std::numeric_limits<double>::infinity(),
          .inputs = {},
          .forward = forward,
          .updated = updated};
}

StepFault held() {
  StepFault fault = made(true);
  fault.kind = StepFault::Kind::kHeld;
  fault.tensor = "classifier.weight";
  return fault;
}

FaultFacts facts(const std::optional<StepFault>& fault) {
  return {.step = 7,
          .pages = "train.jsonl:17, page 'a12'",
          .loss = std::numeric_limits<double>::quiet_NaN(),
          .gradient_norm = 2,
          .fault = fault,
          .skipped_in_a_row = 1};
}

Problem thrown(const FaultFacts& of, const std::filesystem::path& last_good = {}) {
  try {
    throw_fault(of, last_good);
  } catch (const DivergedError& error) {
    return error.problem();
  }
}

TEST(UpdateFaults, ParametersAreIntactUnlessTheFaultReachedThem) {
  for (const UpdateMode mode : {UpdateMode::kAfterBackward, UpdateMode::kInBackward, UpdateMode::kTwoPasses}) {
    EXPECT_TRUE(leaves_parameters_intact(made(true), mode));
    EXPECT_EQ(leaves_parameters_intact(made(false), mode), mode != UpdateMode::kInBackward);
    EXPECT_FALSE(leaves_parameters_intact(made(true, true), mode));
    EXPECT_FALSE(leaves_parameters_intact(held(), mode));
    EXPECT_FALSE(leaves_parameters_intact(std::nullopt, mode));  // nobody knows
  }
}

TEST(UpdateFaults, ASkippedUpdateIsNamedWithItsPagesAndItsRecord) {
  FaultFacts of = facts(made(true));
  EXPECT_EQ(skipped_text(of),
            "update 7, train.jsonl:17, page 'a12': the loss or the gradients are NaN or infinite: loss nan, gradient "
            "norm 2; layer_norm 'encoder.LayerNorm' makes inf: tensor 'encoder.LayerNorm' F32[8, 48] at [3, 4]; the "
            "update is skipped");
  of.directory = "run/nonfinite-step-7";
  EXPECT_TRUE(skipped_text(of).ends_with("is skipped, see plimsoll replay run/nonfinite-step-7"));
}

TEST(UpdateFaults, TheErrorSaysWhatToDo) {
  const Problem first = thrown(facts(std::nullopt));
  EXPECT_EQ(first.what, "the loss or the gradients are no longer finite");
  EXPECT_NE(first.found.find("gave only finite numbers"), std::string::npos);
  EXPECT_EQ(first.remedy,
            "lower --learning-rate, raise --warmup-ratio, or pass --on-nonfinite skip if a page is the cause");
  FaultFacts many = facts(made(true));
  many.skips = true;
  many.skipped_in_a_row = kMostSkippedInARow;
  many.directory = "run/nonfinite-step-7";
  const Problem last = thrown(many, "run/checkpoint-4");
  EXPECT_NE(last.what.find("skipping 20 updates in a row does not help"), std::string::npos);
  EXPECT_EQ(
      last.remedy,
      "plimsoll replay run/nonfinite-step-7 shows the step again; lower --learning-rate, or raise "
      "--warmup-ratio; the last good checkpoint is run/checkpoint-4 (if a run from it fails at once, take an earlier "
      "one)");
  EXPECT_NE(thrown(facts(held())).remedy.find("'classifier.weight' has NaN or infinite values"), std::string::npos);
}

TEST(UpdateFaults, AnIndexOutsideItsTableIsAnInternalError) {
  StepFault fault = made(true);
  fault.kind = StepFault::Kind::kIndex;
  fault.table_rows = 300;
  EXPECT_THROW(throw_fault(facts(fault), {}), InternalError);
}

}  // namespace
}  // namespace plimsoll
