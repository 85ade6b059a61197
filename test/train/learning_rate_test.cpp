// Compares the learning rates of every schedule with those of transformers, and with values worked out by hand.
#include "train/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/pages_fixture.h"
#include "harness/paths.h"
#include "train/options.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using test::caught;

const json& golden() {
  static const json file = json::parse(read_text_file(source_dir() / "test/train/schedules.json"));
  return file;
}

LearningRate rate_of(const json& one) {
  return LearningRate({.schedule = parse_schedule(one.at("name"), one.at("arguments").dump()),
                       .peak = golden().at("peak"),
                       .warmup_steps = one.value("warmup", 0),
                       .total_steps = golden().at("total")});
}

void expect_rate(double found, double expected, const std::string& where) {
  EXPECT_NEAR(found, expected, 1e-9 * std::abs(expected) + 1e-18) << where;
}

TEST(LearningRate, IsThatOfTransformers) {
  std::size_t adapted = 0;
  for (const json& one : golden().at("cases")) {
    LearningRate rate = rate_of(one);
    const json& rates = one.at("rates");
    const std::string name = one.at("name").get<std::string>() + " " + one.at("arguments").dump();
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (one.contains("metrics")) {
        rate.observe(one.at("metrics")[i], one.at("arguments").at("mode") == "min");
        adapted += i > 0 && rates[i] != rates[i - 1] ? 1 : 0;
      }
      expect_rate(rate.at(static_cast<std::int64_t>(i)), rates[i], name + ", update " + std::to_string(i));
    }
  }
  EXPECT_GT(adapted, 20U) << "metrics that change no rate test nothing";
}

TEST(LearningRate, EveryScheduleIsCompared) {
  for (const std::string& name : schedule_names()) {
    const auto is = [&name](const json& one) { return one.at("name") == name; };
    EXPECT_TRUE(std::ranges::any_of(golden().at("cases"), is)) << name;
  }
}

// A run that is resumed goes on as one that never stopped.
TEST(LearningRate, ContinuesFromItsState) {
  for (const json& one : golden().at("cases")) {
    if (!one.contains("metrics")) continue;
    LearningRate whole = rate_of(one);
    AdaptedRate state = whole.adapted();
    for (const json& metric : one.at("metrics")) {
      LearningRate resumed = rate_of(one);
      resumed.restore(state);
      whole.observe(metric, true);
      resumed.observe(metric, true);
      EXPECT_EQ(resumed.adapted(), whole.adapted());
      state = resumed.adapted();
    }
  }
}

TEST(LearningRate, TheMetricSaysWhatIsBetterUnlessTheModeDoes) {
  const auto after = [](const std::string& arguments, bool smaller_is_better) {
    LearningRate rate({.schedule = parse_schedule("reduce_lr_on_plateau", arguments), .peak = 1});
    for (const double metric : {0.1, 0.2, 0.3}) rate.observe(metric, smaller_is_better);
    return rate.at(0);
  };
  EXPECT_EQ(after(R"({"patience": 0})", false), 1);
  EXPECT_LT(after(R"({"patience": 0})", true), 0.1);
  EXPECT_LT(after(R"({"patience": 0, "mode": "min"})", false), 0.1);
}

TEST(LearningRate, WarmUpInUpdatesOrAsAFraction) {
  TrainOptions options;
  options.warmup_ratio = 0.3;
  EXPECT_EQ(warmup_updates(options, 5), 2);
  options.warmup_steps = 12;
  EXPECT_EQ(warmup_updates(options, 5), 12);
  // A run that is shorter than its warm-up never reaches the peak.
  const LearningRate rate({.peak = 8, .warmup_steps = 12, .total_steps = 6});
  EXPECT_EQ(rate.at(0), 0);
  EXPECT_EQ(rate.at(5), 8 * 5.0 / 12);
}

TEST(Schedule, ArgumentsThatItLacksAreRefused) {
  struct Case {
    const char *name, *arguments, *found, *allowed;
  };
  for (const Case& bad :
       {Case{"cosin", "", "cosin", "linear, cosine, cosine_with_restarts"},
        {"linear", R"({"num_cycles": 1})", "num_cycles", "none for linear"},
        {"cosine", "2", "2", R"('{"num_cycles": 2}'; num_cycles)"},
        {"cosine", R"({"num_cycles": "many"})", R"("many")", "a number of 0 or more"},
        {"cosine_with_restarts", R"({"num_cycles": 1.5})", "1.5", "a whole number of 1 or more"},
        {"cosine_with_min_lr", "", "neither", "min_lr or min_lr_rate"},
        {"cosine_with_min_lr", R"({"min_lr": 0, "min_lr_rate": 0})", "both", "min_lr or min_lr_rate"},
        {"warmup_stable_decay", "", "none", "num_decay_steps"},
        {"warmup_stable_decay", R"({"num_decay_steps": 1, "decay_type": "exp"})", R"("exp")", "cosine, linear, 1-sqrt"},
        {"greedy", R"({"smooth": 1})", "1", "true or false"},
        {"reduce_lr_on_plateau", R"({"factor": 1.5})", "1.5", "a number from 0 to 1"}}) {
    const auto error = caught<UsageError>([&bad] { parse_schedule(bad.name, bad.arguments); });
    EXPECT_EQ(error.problem().found, bad.found) << bad.name << bad.arguments;
    EXPECT_NE(error.problem().allowed.find(bad.allowed), std::string::npos) << error.problem().allowed;
  }
}

TEST(Schedule, HasToFitTheRun) {
  const Schedule stages = parse_schedule("warmup_stable_decay", R"({"num_decay_steps": 90})");
  EXPECT_THROW(LearningRate({.schedule = stages, .warmup_steps = 20, .total_steps = 100}), UsageError);
  const Schedule polynomial = parse_schedule("polynomial");
  EXPECT_THROW(LearningRate({.schedule = polynomial, .peak = 1e-8}), UsageError);
}

TEST(Schedule, ItsTextSaysWhatWasChosen) {
  EXPECT_EQ(schedule_text({}), "linear");
  EXPECT_EQ(schedule_text(parse_schedule("cosine")), "cosine");
  EXPECT_EQ(schedule_text(parse_schedule("cosine_with_restarts", R"({"num_cycles": 3})")),
            "cosine_with_restarts, num_cycles 3");
  EXPECT_EQ(schedule_text(parse_schedule("greedy", R"({"mode": "max"})")), "greedy, mode max");
}

}  // namespace
}  // namespace plimsoll
