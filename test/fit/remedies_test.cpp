// Tests a refusal's suggestions: changes that really fit, the cheapest first, with options that can be typed.
#include "fit/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// Returns the smallest plan of a request that does not fit.
RunPlan plan_of(const FitRequest& request, Backend& backend) {
  return plan_run(request, {.micro_batch_size = request.micro_batch_size.value_or(1)}, backend, PlanDepth::kEstimate);
}

TEST(Changes, AreWrittenAsOptionsAndSayWhatTheyAre) {
  for (const Change& change : known_changes(small_request(4))) {
    EXPECT_NE(change.flags.find("--"), std::string::npos) << change.what;
    EXPECT_FALSE(change.kind.empty());
    EXPECT_FALSE(change.what.empty());
    EXPECT_LE(change.what.size(), 66U) << change.what;  // fits one line of a message
  }
}

TEST(Changes, DoNothingToARunThatIsAlreadyAsTheyWouldHaveIt) {
  FitRequest request = small_request(4);
  request.step.optimizer.clips = false;
  request.offload = OffloadTarget::kFile;
  request.offload_directory = ".";
  for (const Change& change : known_changes(request)) {
    if (change.effect > Effect::kNoEvaluation && change.kind != "clipping") continue;
    FitRequest trial = request;
    EXPECT_FALSE(change.apply(trial)) << change.what;
  }
}

TEST(Changes, TrainLessOfAModelThatHasWeights) {
  for (const bool pretrained : {false, true}) {
    FitRequest request = small_request(4);
    request.pretrained = pretrained;
    int freezing = 0, adapters = 0;
    for (const Change& change : known_changes(request)) {
      if (change.effect != Effect::kFewerTrained) continue;
      FitRequest trial = request;
      const bool applies = change.apply(trial);
      (change.kind.ends_with("adapters") ? adapters : freezing) += applies ? 1 : 0;
      if (!applies) continue;
      const RunPlan before = plan_run(request, {}, *std::make_unique<ReferenceBackend>(), PlanDepth::kEstimate);
      const RunPlan after = plan_run(trial, {}, *std::make_unique<ReferenceBackend>(), PlanDepth::kEstimate);
      EXPECT_LT(after.trained_parameters, before.trained_parameters);
      EXPECT_LT(after.arena_bytes, before.arena_bytes) << change.flags;
      EXPECT_FALSE(change.apply(trial)) << change.flags;  // has no effect twice
    }
    EXPECT_EQ(freezing, 1);
    EXPECT_EQ(adapters, pretrained ? 2 : 0);  // on a base in full, and in 4 bits
  }
}

TEST(Remedies, UnpinTheMicroBatch) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = small_request(4);  // each sample holds 256 MiB of loader buffers
  request.micro_batch_size = 4;
  const RunPlan smallest = plan_of(request, backend);
  request.budget_bytes = smallest.predicted_peak_bytes - kLoaderBytesPerSample;
  const std::vector<Remedy> remedies = find_remedies(request, smallest, backend);
  ASSERT_FALSE(remedies.empty());
  EXPECT_NE(remedies.front().flags.find("--micro-batch-size 0"), std::string::npos);
  EXPECT_EQ(remedies.front().effect, Effect::kNone);
  EXPECT_GE(remedies.front().saved_bytes, kLoaderBytesPerSample);
  EXPECT_LE(remedies.front().needed_bytes, request.budget_bytes);
  expect_error<BudgetError>([&] { fit(request, backend); },
                            {"pass --budget ", "1. --micro-batch-size 0", "saves ", "changes no result"});
}

TEST(Remedies, AreSortedByTimeThenByWhatTheyChange) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = small_request(1);
  request.loader_bytes = nullptr;
  request.evaluates = true;
  use_model(request, wide_config());
  FitRequest tight = request;
  tight.budget_bytes = 1;
  const RunPlan smallest = plan_of(request, backend);
  request.budget_bytes = smallest.predicted_peak_bytes / 2 + 20 * kMiB;
  const std::vector<Remedy> remedies = find_remedies(request, smallest, backend, 10);
  ASSERT_GE(remedies.size(), 2U);
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    EXPECT_LE(remedies[i].needed_bytes, request.budget_bytes);
    if (i == 0) continue;
    const int before = slowness(remedies[i - 1]), here = slowness(remedies[i]);
    const bool changes_model = remedies[i].effect == Effect::kModel;
    if (changes_model && remedies[i - 1].effect != Effect::kModel) continue;  // another model comes last
    EXPECT_EQ(changes_model, remedies[i - 1].effect == Effect::kModel);
    EXPECT_LE(before, here);
    if (before == here) {
      EXPECT_LE(remedies[i - 1].effect, remedies[i].effect);
    }
  }
  // Even if fewer are listed, one of them changes as little as possible.
  const auto least = [](const std::vector<Remedy>& of) {
    return std::ranges::min_element(of, {}, &Remedy::effect)->effect;
  };
  for (const std::size_t count : {1, 2, 3}) {
    const std::vector<Remedy> few = find_remedies(request, smallest, backend, count);
    EXPECT_LE(few.size(), count);
    EXPECT_EQ(least(few), least(remedies));
  }
  EXPECT_TRUE(find_remedies(tight, smallest, backend).empty());  // nothing helps
}

TEST(Remedies, OneIsNotEnoughSoSeveralAreNamedTogether) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = small_request(2);
  request.text_rows = [](std::int64_t micro) { return 8000 * micro; };
  request.update_text_rows = 16'000;
  request.micro_batch_size = 2;
  request.recompute = RecomputeMode::kNone;
  request.loader_bytes = nullptr;
  use_model(request, small_config(6));
  const auto needs = [&](bool one_page, bool recompute) {
    FitRequest trial = request;
    if (one_page) trial.micro_batch_size = 1;
    if (recompute) trial.recompute = RecomputeMode::kLayers;
    trial.budget_bytes = 0;
    return choose_plan(trial, backend)->predicted_peak_bytes;
  };
  const std::size_t both = needs(true, true), one = std::min(needs(true, false), needs(false, true));
  ASSERT_LT(both + 4 * kMiB, one);
  request.budget_bytes = (both + one) / 2;
  std::vector<Remedy> remedies = find_remedies(request, plan_of(request, backend), backend, 10);
  ASSERT_FALSE(remedies.empty());
  for (const Remedy& remedy : remedies) EXPECT_LE(remedy.needed_bytes, request.budget_bytes) << remedy.flags;
}

// Who has chosen a model wants that one, with as few changes as will do.
TEST(Remedies, SeveralAreNamedTogetherBesideAnotherModel) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = deep_request(2, 8'000);
  request.micro_batch_size = 2;
  request.recompute = RecomputeMode::kNone;
  request.least_window = 1000;  // so pages cannot be cut
  LabelledConfig smaller = small_config();
  smaller.hidden_size = smaller.intermediate_size = 24;
  smaller.coordinate_size = smaller.shape_size = 4;
  request.smaller_models = {{.name = "other", .definition = layoutlmv3(smaller)}};
  const auto needs = [&](const FitRequest& trial) { return smallest_plan(trial, backend).predicted_peak_bytes; };
  FitRequest all = request;
  std::size_t single = needs(request);
  for (const Change& change : known_changes(request)) {
    if (change.effect >= Effect::kFewerTrained) break;
    FitRequest trial = request;
    if (change.apply(trial)) single = std::min(single, needs(trial));
    change.apply(all);
  }
  const std::size_t together = needs(all);
  ASSERT_GT(single, together + 4 * kMiB);
  request.budget_bytes = (single + together) / 2;
  const std::vector<Remedy> remedies = find_remedies(request, plan_of(request, backend), backend);
  ASSERT_GE(remedies.size(), 2U);
  EXPECT_EQ(remedies.back().flags, "--model other");
  EXPECT_LT(remedies.front().effect, Effect::kModel);
  EXPECT_NE(remedies.front().what.find("; "), std::string::npos) << remedies.front().what;
}

TEST(Remedies, FillNoMoreThanEightyColumns) {
  std::vector<Remedy> remedies;
  Remedy all{.what = "",
             .flags = "",
             .effect = Effect::kFewerTrained,
             .needed_bytes = 1,
             .saved_bytes = 1023 * kMiB,
             .slower = 1.5};
  for (const Change& change : known_changes(small_request(4))) {
    remedies.push_back({.what = change.what,
                        .flags = change.flags,
                        .effect = change.effect,
                        .needed_bytes = 1,
                        .saved_bytes = 1023 * kMiB,
                        .slower = -0.2});
    all.what += (all.what.empty() ? "" : "; ") + change.what;
    all.flags += (all.flags.empty() ? "" : " ") + change.flags;
  }
  remedies.push_back(all);
  for (const std::string& line : lines_of(remedies_text(remedies, 11))) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(remedies_text({}, 11), "");
}

}  // namespace
}  // namespace plimsoll::test
