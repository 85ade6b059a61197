#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "harness/paths.h"
#include "tasks/token_classification/metrics.h"

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

const Names kNames = {"O", "B-DATE", "I-DATE", "B-TOTAL", "I-TOTAL"};

// Returns all label names of a golden case, in order of appearance.
Names label_set(const nlohmann::json& pages) {
  Names names;
  for (const auto& page : pages) {
    for (const auto& labels : page) {
      for (const auto& label : labels) {
        if (std::find(names.begin(), names.end(), label) == names.end()) names.push_back(label);
      }
    }
  }
  return names;
}

std::vector<std::int32_t> ids(const nlohmann::json& labels, const Names& names) {
  std::vector<std::int32_t> result;
  for (const auto& label : labels) {
    result.push_back(static_cast<std::int32_t>(std::find(names.begin(), names.end(), label) - names.begin()));
  }
  return result;
}

void expect_scores(const EntityScores& scores, const nlohmann::json& golden, const std::string& what) {
  EXPECT_NEAR(scores.precision, golden["precision"].get<double>(), 1e-15) << what;
  EXPECT_NEAR(scores.recall, golden["recall"].get<double>(), 1e-15) << what;
  EXPECT_NEAR(scores.f1, golden["f1"].get<double>(), 1e-15) << what;
  EXPECT_EQ(scores.support, golden["support"].get<std::uint64_t>()) << what;
}

// The file was made by tools/golden_metrics.py with seqeval: random BIO and IOBES sequences, I- without B-, changes of
// type, bare tags; IOB1, IOB2, BIOES, BILOU and plain names with predictions that mostly follow the scheme.
TEST(EntityMetrics, EqualsSeqeval) {
  const auto golden = nlohmann::json::parse(read_text_file(test_data_dir() / "metrics.json"));
  ASSERT_GT(golden["cases"].size(), 20U);
  std::size_t index = 0;
  std::map<std::string, int> of_scheme;
  for (const auto& item : golden["cases"]) {
    const std::string what = "case " + std::to_string(index++);
    const Names names = label_set(item["pages"]);
    if (item.contains("scheme")) {
      const std::string scheme = item["scheme"].get<std::string>();
      EXPECT_EQ(scheme_name(label_scheme(names)), scheme.starts_with("IOB") ? "IOB" : scheme) << what;
      ++of_scheme[scheme];
    }
    EntityMetrics metrics(names);
    for (const auto& page : item["pages"]) metrics.add_page(ids(page[0], names), ids(page[1], names));
    expect_scores(metrics.overall(), item["overall"], what);
    const auto types = metrics.per_type();
    ASSERT_EQ(types.size(), item["per_label"].size()) << what;
    auto expected = item["per_label"].begin();
    for (const auto& [type, scores] : types) {
      EXPECT_EQ(type, expected.key()) << what;
      expect_scores(scores, expected.value(), what + ", " + type);
      ++expected;
    }
  }
  for (const char* scheme : {"IOB1", "IOB2", "BIOES", "BILOU", "plain"}) EXPECT_EQ(of_scheme[scheme], 8) << scheme;
}

TEST(EntityMetrics, PlainNamesOfTheSameEndAreDifferentTypes) {
  EntityMetrics metrics({"O", "RATE", "DATE"});
  metrics.add_page(std::vector<std::int32_t>{1, 1, 0, 2}, std::vector<std::int32_t>{2, 2, 0, 2});
  const EntityScores scores = metrics.overall();
  EXPECT_EQ(scores.support, 2U);
  EXPECT_EQ(scores.correct, 1U);
  EXPECT_EQ(metrics.per_type().front().type, "DATE");
}

TEST(EntityMetrics, AWordWithoutAPredictionIsMissed) {
  EntityMetrics metrics(kNames);
  const std::int32_t none = kNoPrediction;
  metrics.add_page(std::vector<std::int32_t>{1, 2, 0, 3, 4}, std::vector<std::int32_t>{1, 2, none, none, none});
  metrics.add_page(std::vector<std::int32_t>{1, 2}, std::vector<std::int32_t>{1, none});
  const EntityScores scores = metrics.overall();
  EXPECT_EQ(scores.support, 3U);
  EXPECT_EQ(scores.predicted, 2U);
  EXPECT_EQ(scores.correct, 1U);
}

TEST(EntityMetrics, CountsAnEntityOnlyWhenAllOfItIsRight) {
  EntityMetrics metrics(kNames);
  metrics.add_page(std::vector<std::int32_t>{1, 2, 0, 3, 4}, std::vector<std::int32_t>{1, 2, 0, 3, 0});
  const EntityScores scores = metrics.overall();
  EXPECT_EQ(scores.support, 2U);
  EXPECT_EQ(scores.predicted, 2U);
  EXPECT_EQ(scores.correct, 1U);
  EXPECT_DOUBLE_EQ(scores.f1, 0.5);
}

TEST(EntityMetrics, AnEntityEndsWithItsPage) {
  EntityMetrics metrics(kNames);
  const std::vector<std::int32_t> first = {0, 1};
  const std::vector<std::int32_t> second = {2, 0};
  metrics.add_page(first, first);
  metrics.add_page(second, second);
  EXPECT_EQ(metrics.overall().support, 2U);
}

TEST(EntityMetrics, ResetForgetsEverything) {
  EntityMetrics metrics(kNames);
  const std::vector<std::int32_t> page = {1, 2, 3};
  metrics.add_page(page, page);
  metrics.reset();
  EXPECT_EQ(metrics.overall().support, 0U);
  EXPECT_TRUE(metrics.per_type().empty());
  EXPECT_EQ(metrics.overall().f1, 0);
  metrics.add_page(page, page);
  EXPECT_EQ(metrics.overall().correct, 2U);
}

TEST(EntityMetrics, EmptyPagesCountNothing) {
  EntityMetrics metrics(kNames);
  metrics.add_page({}, {});
  EXPECT_EQ(metrics.overall().support, 0U);
}

TEST(EntityMetrics, RefusesWhatIsNotInTheLabelSet) {
  EXPECT_THROW(EntityMetrics({"O", ""}), DataError);
  EntityMetrics metrics(kNames);
  const std::vector<std::int32_t> one = {1};
  const std::vector<std::int32_t> two = {1, 2};
  const std::vector<std::int32_t> five = {5};
  const std::vector<std::int32_t> negative = {-100};
  EXPECT_THROW(metrics.add_page(one, two), InternalError);
  EXPECT_THROW(metrics.add_page(five, one), InternalError);
  EXPECT_THROW(metrics.add_page(one, negative), InternalError);
}

}  // namespace
}  // namespace plimsoll
