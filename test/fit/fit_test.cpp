#include "fit/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/reference/reference_backend.h"
#include "fit/small_request.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

// Returns a budget with room for this micro-batch and not for the next larger one.
std::size_t budget_for(const FitRequest& request, std::int64_t micro, Backend& backend) {
  return plan_run(request, {.micro_batch_size = micro}, backend).predicted_peak_bytes + kLoaderBytesPerSample / 2;
}

// Returns the number after "pass --budget " in the error's remedy, in MiB.
std::size_t named_budget(const std::function<void()>& action) {
  try {
    action();
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBudget);
    EXPECT_EQ(error.problem().where, "--budget");
    const std::string& remedy = error.problem().remedy;
    const std::string before = "pass --budget ";
    EXPECT_TRUE(remedy.starts_with(before)) << remedy;
    const std::string text = remedy.substr(before.size(), remedy.find(',') - before.size());
    EXPECT_NE(error.problem().allowed.find(text.substr(0, text.find("MiB"))), std::string::npos) << error.what();
    return parse_bytes(text, "--budget");
  }
  ADD_FAILURE() << "the budget is not refused";
  return 0;
}

std::map<std::string, std::size_t> items_of(const RunPlan& run) {
  std::map<std::string, std::size_t> items;
  for (const MemoryItem& item : run.items) items[item.name] = item.bytes;
  EXPECT_EQ(items.size(), run.items.size()) << "an item's name comes twice";
  return items;
}

TEST(Fit, TakesTheFewestMicroBatchesThatFit) {
  ReferenceBackend backend;
  for (const std::int64_t batch : {1, 2, 5, 12}) {
    FitRequest request = small_request(batch);
    for (std::int64_t room = 1; room <= batch; ++room) {
      request.budget_bytes = budget_for(request, room, backend);
      const RunPlan run = fit(request, backend);
      // Searches naively: the first number of steps whose largest micro-batch fits.
      std::int64_t steps = 1;
      while ((batch + steps - 1) / steps > room) ++steps;
      EXPECT_EQ(run.accumulation_steps, steps) << "batch " << batch << ", room for " << room;
      EXPECT_EQ(run.levers.micro_batch_size, (batch + steps - 1) / steps) << "batch " << batch << ", room for " << room;
      EXPECT_LE(run.predicted_peak_bytes, request.budget_bytes);
      EXPECT_EQ(run.budget_bytes, request.budget_bytes);
    }
  }
}

TEST(Fit, WithoutABudgetTheBatchIsWhole) {
  ReferenceBackend backend;
  const RunPlan run = fit(small_request(7), backend);
  EXPECT_EQ(run.levers.micro_batch_size, 7);
  EXPECT_EQ(run.accumulation_steps, 1);
  ASSERT_EQ(run.programs.size(), 1U);
  EXPECT_EQ(run.programs[0].kind, ProgramKind::kStep);
  EXPECT_EQ(run.programs[0].capacity.samples, 7);
  EXPECT_EQ(run.programs[0].capacity.text_rows, 140);
}

TEST(Fit, ABudgetTooSmallNamesOneThatWorks) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  for (const std::int64_t batch : {1, 6}) {
    FitRequest request = small_request(batch);
    request.budget_bytes = 10 * kMiB;
    // A refusal tries many plans, and this process keeps a little of their memory: the first refusal's part of it is
    // included in the budget that the second one names.
    expect_error<BudgetError>([&] { fit(request, backend); },
                              {"10.0 MiB", "micro-batch 1", "parameters", "optimizer state", "loader buffers"});
    const std::size_t named = named_budget([&] { fit(request, backend); });
    request.budget_bytes = named;
    // Another process holds a little more or less; this one holds as much more as rounding up to a MiB would cover.
    const std::vector<char> held(kMiB - 64 * kKiB, 'x');
    const RunPlan run = fit(request, backend);
    EXPECT_EQ(held.back(), 'x');
    EXPECT_EQ(run.levers.micro_batch_size, 1);
    EXPECT_LE(run.predicted_peak_bytes, named);
    // A much smaller budget is not enough.
    request.budget_bytes = named - 32 * kMiB;
    EXPECT_THROW(fit(request, backend), BudgetError);
  }
}

TEST(Fit, APinnedMicroBatchStays) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  ReferenceBackend backend;
  FitRequest request = small_request(12);
  for (const auto& [micro, steps] : std::map<std::int64_t, std::int64_t>{{1, 12}, {3, 4}, {5, 3}, {12, 1}}) {
    request.micro_batch_size = micro;
    request.budget_bytes = budget_for(request, 12, backend);
    const RunPlan run = fit(request, backend);
    EXPECT_EQ(run.levers.micro_batch_size, micro);
    EXPECT_EQ(run.accumulation_steps, steps) << micro;
  }
  // If it does not fit, the named budget is one for this micro-batch, not for a smaller one.
  request.micro_batch_size = 3;
  request.budget_bytes = budget_for(request, 2, backend);
  const std::size_t named = named_budget([&] { fit(request, backend); });
  request.budget_bytes = named;
  EXPECT_EQ(fit(request, backend).levers.micro_batch_size, 3);
}

TEST(Fit, APinnedMicroBatchThatMakesNoSense) {
  ReferenceBackend backend;
  FitRequest request = small_request(12);
  for (const std::int64_t micro : {-1, 0, 13}) {
    request.micro_batch_size = micro;
    expect_error<UsageError>([&] { fit(request, backend); },
                             {"--micro-batch-size", std::to_string(micro), "1 to the effective batch, 12"});
  }
}

TEST(PlanRun, ProgramsFollowFromWhatTheRunDoes) {
  ReferenceBackend backend;
  const auto kinds = [&](std::int64_t micro, bool trains, bool evaluates) {
    FitRequest request = small_request(4);
    request.trains = trains;
    request.evaluates = evaluates;
    const RunPlan run = plan_run(request, {.micro_batch_size = micro}, backend);
    std::vector<ProgramKind> result;
    for (const PlannedProgram& program : run.programs) {
      result.push_back(program.kind);
      EXPECT_EQ(program.capacity.samples, micro);
      EXPECT_EQ(program.capacity.text_rows, (program.kind == ProgramKind::kEvaluate ? 30 : 20) * micro);
      EXPECT_NE(program.loss, kNoValue);
      EXPECT_EQ(program.logits != kNoValue, program.kind == ProgramKind::kEvaluate);
      const bool updates = program.kind == ProgramKind::kStep || program.kind == ProgramKind::kAccumulateAndStep;
      EXPECT_EQ(program.gradient_norm != kNoValue, updates);
    }
    EXPECT_EQ(run.accumulation_steps, trains ? 4 / micro : 0);
    return result;
  };
  using enum ProgramKind;
  EXPECT_EQ(kinds(4, true, false), (std::vector{kStep}));
  EXPECT_EQ(kinds(4, true, true), (std::vector{kStep, kEvaluate}));
  EXPECT_EQ(kinds(2, true, false), (std::vector{kAccumulate, kAccumulateAndStep}));
  EXPECT_EQ(kinds(1, true, true), (std::vector{kAccumulate, kAccumulateAndStep, kEvaluate}));
  EXPECT_EQ(kinds(4, false, true), (std::vector{kEvaluate}));
}

TEST(PlanRun, ItemsAddUpToThePrediction) {
  ReferenceBackend backend;
  FitRequest request = small_request(4);
  request.evaluates = true;
  for (const std::int64_t micro : {1, 2, 4}) {
    const RunPlan run = plan_run(request, {.micro_batch_size = micro}, backend);
    std::size_t sum = 0, arena = 0, outside = 0;
    for (const MemoryItem& item : run.items) {
      sum += item.bytes;
      const bool is_outside =
          item.name.starts_with("process") || item.name == "loader buffers" || item.name == "reserve for libraries";
      (is_outside ? outside : arena) += item.bytes;
    }
    EXPECT_EQ(sum, run.predicted_peak_bytes);
    EXPECT_EQ(arena, run.arena_bytes);
    std::size_t largest = 0;
    for (const PlannedProgram& program : run.programs) {
      EXPECT_EQ(program.plan.persistent_bytes, run.layout.bytes());
      largest = std::max(largest, program.plan.transient_bytes);
    }
    EXPECT_EQ(run.arena_bytes, run.layout.bytes() + largest);
    EXPECT_EQ(items_of(run).at("loader buffers"), static_cast<std::size_t>(micro) * kLoaderBytesPerSample);
    EXPECT_GT(items_of(run).at("process, libraries, data index"), 1 * kMiB);
  }
}

// To read a tokenizer may take more than the run.
TEST(PlanRun, WhatTheProcessHasHeldBeforeIsTheLeast) {
  ReferenceBackend backend;
  FitRequest request = small_request(4);
  const RunPlan usual = plan_run(request, {.micro_batch_size = 4}, backend);
  request.startup_bytes = usual.predicted_peak_bytes / 2;
  EXPECT_LT(plan_run(request, {.micro_batch_size = 4}, backend).predicted_peak_bytes, 2 * usual.predicted_peak_bytes);
  request.startup_bytes = 3 * usual.predicted_peak_bytes;
  const RunPlan plan = plan_run(request, {.micro_batch_size = 4}, backend);
  EXPECT_EQ(plan.predicted_peak_bytes, request.startup_bytes);
  std::size_t sum = 0;
  for (const MemoryItem& item : plan.items) sum += item.bytes;
  EXPECT_EQ(sum, plan.predicted_peak_bytes);
}

TEST(PlanRun, PersistentItemsAreWhatTheModelSays) {
  ReferenceBackend backend;
  std::size_t parameters = 0, trained = 0, accumulated = 0;
  const FitRequest request = small_request(4);
  for (const ParameterSpec& spec : request.step.definition.specs()) {
    const std::size_t bytes = round_up(4 * static_cast<std::size_t>(spec.shape.elements()), kAlignmentBytes);
    parameters += bytes;
    if (!spec.trains) continue;
    trained += bytes;
    if (spec.name != "layoutlmv3.embeddings.word_embeddings.weight") accumulated += bytes;
  }
  // The word table's gradient has ids and rows for the 80 words of an update, and their count.
  accumulated += round_up(4 * 80, kAlignmentBytes) + 4 * 80 * 48 + kAlignmentBytes;
  for (const std::int64_t micro : {1, 4}) {
    const auto items = items_of(plan_run(request, {.micro_batch_size = micro}, backend));
    EXPECT_EQ(items.at("parameters"), parameters);
    EXPECT_EQ(items.at("optimizer state"), 2 * trained);
    EXPECT_EQ(items.at("accumulated gradients"), micro == 4 ? 0 : accumulated);
  }
  FitRequest evaluation = request;
  evaluation.trains = false;
  evaluation.evaluates = true;
  const auto items = items_of(plan_run(evaluation, {.micro_batch_size = 4}, backend));
  EXPECT_EQ(items.at("parameters"), parameters);
  EXPECT_EQ(items.at("optimizer state"), 0U);
  EXPECT_EQ(items.at("accumulated gradients"), 0U);
}

TEST(PlanRun, EachOptimizerHasItsBytes) {
  ReferenceBackend backend;
  FitRequest request = small_request(4);
  std::size_t coded = 0, exact = 0, factored = 0;
  const auto aligned = [](std::int64_t bytes) { return round_up(static_cast<std::size_t>(bytes), kAlignmentBytes); };
  for (const ParameterSpec& spec : request.step.definition.specs()) {
    if (!spec.trains) continue;
    const std::int64_t elements = spec.shape.elements(), blocks = (elements + 255) / 256;
    // No row of these tables is a whole block of codes.
    const bool whole = elements < 4096 || spec.is_embedding();
    (whole ? exact : coded) += 2 * (whole ? aligned(4 * elements) : aligned(elements) + aligned(4 * blocks));
    const Shape& shape = spec.file_shape;
    const std::size_t rank = shape.rank();
    factored += rank < 2 ? aligned(4 * elements)
                         : aligned(4 * elements / shape[rank - 1]) + aligned(4 * elements / shape[rank - 2]);
  }
  request.step.optimizer.kind = OptimizerKind::kAdamW8bit;
  const auto plan = [&] { return items_of(plan_run(request, {.micro_batch_size = 4}, backend)); };
  EXPECT_EQ(plan().at("optimizer state (adamw_8bit)"), coded);
  EXPECT_EQ(plan().at("optimizer state in 32 bits (embeddings, small)"), exact);
  request.step.optimizer.kind = OptimizerKind::kAdafactor;
  EXPECT_EQ(plan().at("optimizer state (adafactor)"), factored);
}

TEST(PlanRun, MemoryGrowsWithTheMicroBatch) {
  // fit()'s binary search relies on this, without the loader's share.
  ReferenceBackend backend;
  FitRequest request = small_request(8);
  request.loader_bytes = nullptr;
  std::size_t before = 0;
  for (const std::int64_t micro : {1, 2, 3, 4, 6, 7}) {
    const RunPlan run = plan_run(request, {.micro_batch_size = micro}, backend);
    EXPECT_GT(run.arena_bytes, before) << micro;
    before = run.arena_bytes;
    EXPECT_EQ(items_of(run).at("loader buffers"), 0U);
  }
}

}  // namespace
}  // namespace plimsoll::test
