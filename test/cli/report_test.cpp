// Reports are pasted into issues, so no line may be wider than 80 columns, whatever the plan.
#include "cli/report.h"

#include "base/bytes.h"
#include "base/process.h"
#include "cli/explain_text.h"
#include "cli/sweep_chart.h"
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

void expect_eighty_columns(const std::string& text) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_GT(count, 1U);
}

// A plan in which everything is as wide as possible: large numbers, long names, every lever.
struct Wide {
  FitRequest request;
  RunPlan run;
  Explanation explanation;

  Wide() {
    request.train_batch_size = 1 << 20;
    run.levers = {.micro_batch_size = 1 << 12,
                  .update = UpdateMode::kTwoPasses,
                  .recompute = {{.nodes = {"a"}, .bytes = 1023 * kMiB, .seconds = 100}}};
    run.accumulation_steps = 1 << 12;
    run.programs.push_back({.kind = ProgramKind::kAccumulateAndStep,
                            .capacity = {.samples = 1 << 19, .text_rows = 512 << 19},
                            .loss = kNoValue,
                            .logits = kNoValue,
                            .gradient_norm = kNoValue,
                            .gradients = {},
                            .prepared = {},
                            .plan = {}});
    run.arena_bytes = run.predicted_peak_bytes = run.budget_bytes = 1023 * kGiB + 1;
    run.seconds_per_update = 123456.789;
    run.items = {{"process, libraries, data index", 1023 * kMiB},
                 {"gradients (accumulate and step)", 1023 * kGiB},
                 {"an item whose name is longer than anything that there is today", 1}};
    Explanation& e = explanation;
    e.program = ProgramKind::kAccumulateAndStep;
    e.peak_position = 123456;
    e.nodes = 1234567;
    e.peak_node =
        "layoutlmv3.encoder.layer.23.attention.output.dense.linear_weight_grad.with.a.very.long.name.at.the.end";
    e.peak_op = "linear_weight_grad";
    e.peak_phase = "backward";
    e.alive_bytes = e.transient_bytes = 1023 * kGiB;
    e.buffers = 1234567;
    for (int i = 0; i < 20; ++i) {
      e.alive.push_back({.name = "encoder.layer.*.intermediate.dense.gelu.again.and.again.and.again (scratch)",
                         .kind = "activation",
                         .count = 999,
                         .bytes = 100 * kGiB});
    }
    e.phase_seconds = {1, 2, 3};
    e.levers.push_back(
        {.lever = "micro-batch",
         .choice = "524288 of 1048576 pages, 1048576 times per update",
         .why = "as little as the budget allows, and a reason that goes on for longer than one line of it",
         .freed_bytes = -static_cast<std::int64_t>(1023 * kGiB),
         .extra_seconds = 100000,
         .alternative = "all 1048576 at once, nothing recomputed"});
    PlanSummary other;
    other.levers = run.levers;
    other.budget_bytes = other.predicted_peak_bytes = 1023 * kMiB;
    other.seconds_per_update = 2 * run.seconds_per_update;
    e.cheaper = std::move(other);
  }
};

TEST(Reports, FitEightyColumns) {
  const Wide wide;
  expect_eighty_columns(plan_table(wide.run));
  expect_eighty_columns(explain_text(wide.request, wide.run, wide.explanation));
  const PlanSummary& summary = wide.run;
  expect_eighty_columns(sweep_table({&summary, 1}, 8) + "\n");
}

TEST(Reports, NumbersAreExactAndReadable) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1000), "1,000");
  EXPECT_EQ(grouped_digits(1234567890), "1,234,567,890");
  const Wide wide;
  const std::string text = explain_text(wide.request, wide.run, wide.explanation);
  EXPECT_NE(text.find(grouped_digits(1023 * kGiB + 1)), std::string::npos);
  EXPECT_NE(text.find("all others"), std::string::npos);
}

TEST(Reports, ProgressSaysWhoseMemory) {
  StepReport report{.step = 1, .total_steps = 1, .logs = true};
  report.loss = 5;
  report.mean_loss = 2;
  report.resident_bytes = report.budget_bytes = kGiB;
  for (const bool on_device : {false, true}) {
    report.on_device = on_device;
    testing::internal::CaptureStderr();
    ProgressBar(false).on_step(report);
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_THAT(line, testing::HasSubstr(on_device ? "  host memory 1.00 GiB of" : "  memory 1.00 GiB of"));
    EXPECT_THAT(line, testing::HasSubstr("loss 2.0000"));
  }
}

class PlanCommand : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }
  Outcome plan(const Arguments& more) const {
    Arguments all = {"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
};

TEST_F(PlanCommand, ExplainsInEightyColumns) {
  const Outcome outcome = plan({"--budget", "1GiB", "--explain"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_eighty_columns(outcome.out);
  for (const char* part : {"predicted peak", "alive at the peak", "packing", "levers", "other budgets", "pages/s"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(part));
  }
}

TEST_F(PlanCommand, ExplainsInJson) {
  const Outcome outcome = plan({"--budget", "1GiB", "--explain", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  std::size_t items = 0, alive = 0;
  for (const auto& item : json["items"]) items += item["bytes"].get<std::size_t>();
  EXPECT_EQ(items, json["predicted_peak_bytes"].get<std::size_t>());
  const nlohmann::json& explanation = json["explanation"];
  for (const auto& group : explanation["peak"]["alive"]) alive += group["bytes"].get<std::size_t>();
  EXPECT_EQ(alive, explanation["peak"]["alive_bytes"].get<std::size_t>());
  EXPECT_TRUE(explanation["packing"]["is_smallest"].get<bool>());
  for (const char* key : {"levers", "seconds_per_update", "next_cheaper_budget", "next_larger_budget"}) {
    EXPECT_TRUE(explanation.contains(key)) << key;
  }
}

TEST_F(PlanCommand, PlansForAMachineOfAnySize) {
  const Outcome outcome = plan({"--device-memory", "8GiB", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["budget_bytes"].get<std::size_t>(), 7 * kGiB);
  EXPECT_EQ(nlohmann::json::parse(plan({"--device-memory", "1GiB", "--json"}).out)["budget_bytes"].get<std::size_t>(),
            512 * kMiB);
  expect_message(plan({"--device-memory", "256MiB"}), 2, {"--device-memory", "256 MiB"});
  expect_message(plan({"--device-memory", "8GiB", "--budget", "1GiB"}), 2, {"--device-memory", "--budget 1GiB"});
}

TEST_F(PlanCommand, SaysThatThreadsAreTooMany) {
  EXPECT_EQ(plan({}).err.find("--threads"), std::string::npos);
  const std::string threads = std::to_string(std::max(17, 4 * available_cores() + 1));
  const Outcome outcome = run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget",
                               "4GiB", "--threads", threads});
  EXPECT_NE(outcome.err.find("--threads " + threads + " on "), std::string::npos) << outcome.err;
}

TEST_F(PlanCommand, ARefusalFitsEightyColumnsToo) {
  const Outcome outcome = plan({"--budget", "40MiB", "--train-batch-size", "4", "--micro-batch-size", "4"});
  expect_message(outcome, 4, {"does not fit", "pass --budget "});
  expect_eighty_columns(outcome.err);
}

}  // namespace
}  // namespace plimsoll
