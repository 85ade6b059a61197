#include "train/run_log.h"

#include <fstream>
#include <limits>

#include "trainer_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class RunLogs : public testing::Test {
 protected:
  RunLogs() {
    options_.output_dir = folder_.path();
    options_.log_order = true;
  }
  std::vector<nlohmann::json> lines(const char* name) const {
    std::vector<nlohmann::json> all;
    std::ifstream file(folder_.path() / name);
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  static StepReport report(std::int64_t step, bool logs = true) {
    return {.step = step,
            .total_steps = 9,
            .logs = logs,
            .mean_loss = 0.5,
            .gradient_norm = std::numeric_limits<double>::quiet_NaN()};
  }

  ScratchFolder folder_;
  TrainOptions options_;
};

TEST_F(RunLogs, AnUpdatesPagesAndWindowsAreOneLine) {
  RunLog log(options_, std::nullopt, {});
  log.write_order(
      4, std::vector<SampleReference>{{.page = 3, .window = 1}, {.page = 2}, {.page = 2, .item = 1, .items = 3}});
  EXPECT_EQ(lines("order.jsonl").at(0),
            nlohmann::json::parse(R"({"step": 5, "update": 4, "examples": [[3, 1], [2, 0], [2, 0, 1]]})"));
}

TEST_F(RunLogs, ALineIsWrittenWhereItIsDueAndNaNIsNull) {
  RunLog log(options_, std::nullopt, {});
  log.after_update(report(1, false), 0.1);
  log.after_update(report(2), 0.2);
  const auto metrics = lines("metrics.jsonl");
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].at("step"), 2);
  EXPECT_EQ(metrics[0].at("loss"), 0.5);
  EXPECT_TRUE(metrics[0].at("grad_norm").is_null());
  EXPECT_FALSE(metrics[0].contains("loss_scale") || metrics[0].contains("skipped_updates"));
}

TEST_F(RunLogs, LinesSayWhatIsSkippedAndTheScaleThatApplies) {
  options_.precision = DType::kF16;
  RunLog(options_, std::nullopt, {}).after_update(report(1), 0.1);
  EXPECT_TRUE(lines("metrics.jsonl").at(0).contains("loss_scale"));
  options_.precision = DType::kF32;
  options_.skip_nonfinite = true;
  RunLog(options_, std::nullopt, {}).after_update(report(1), 0.1);
  EXPECT_EQ(lines("metrics.jsonl").at(0).at("skipped_updates"), 0);
}

TEST_F(RunLogs, AResumedRunKeepsTheLinesUpToItsCheckpoint) {
  {
    RunLog log(options_, std::nullopt, {});
    for (const std::int64_t step : {1, 2, 3}) log.after_update(report(step), 0.1);
  }
  RunLog log(options_, 2, {});
  EXPECT_EQ(lines("metrics.jsonl").size(), 2U);
}

}  // namespace
}  // namespace plimsoll
