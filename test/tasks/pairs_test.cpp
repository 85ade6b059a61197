// Tasks that read pairs of pages: what is wrong with pairs, which examples they become, what their heads compute, and
// how predictions are judged and written.
#include "data/pairs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "families/model_config.h"
#include "support/expect_error.h"
#include "tasks/page_pairs/head.h"
#include "tasks/page_pairs/results.h"
#include "tasks/page_pairs/targets.h"
#include "tasks/page_pairs/task.h"
#include "tasks/pair_pages.h"
#include "tasks/tasks.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using Kinds = std::map<std::string, std::uint64_t>;

json page_of(const std::string& word, const std::string& group = "") {
  json page = {{"words", {word}}};
  if (!group.empty()) page["group"] = group;
  return page;
}

const std::vector<json> kFivePages = {page_of("a"), page_of("bb"), page_of("ccc"), page_of("dddd"), page_of("eeeee")};

TaskConfig classes() { return {.architecture = "PairClassification", .labels = {"0", "1"}}; }

TEST_F(PairPages, NameWhatIsWrongByFileAndLine) {
  std::vector<json> pages = kFivePages;
  pages.push_back(page_of("f"));
  pages.back()["id"] = "p0";
  write_pages(pages);
  const std::string deep =
      std::string(300'000, '[') + std::string(300'000, ']');  // printing it would overflow the stack
  const auto pairs = read(
      "{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n"
      "{\"a\": \"p1\", \"b\": \"p9\", \"label\": 1}\n"
      "{\"a\": \"p3\", \"b\": \"p3\", \"label\": 0}\n"
      "\n"
      "{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n"
      "{\"a\": \"p1\", \"b\": \"p2\", \"label\": 0}\n"
      "{\"a\": \"p0\", \"b\": \"p2\", \"label\": 0}\n"
      "{\"a\": \"p3\", \"label\": 0}\n"
      "{\"a\": {\"words\": []}, \"b\": \"p2\", \"label\": 0}\n"
      "[1]\n"
      "{\"a\": \"p3\", \"b\": \"p4\"}\n"
      "{\"a\": \"p1\", \"b\": \"p4\", \"label\": 7}\n"
      "{\"a\": \"p2\", \"b\": \"p4\", \"label\": 0.5}\n"
      "{\"a\": \"p2\", \"b\": \"p4\", \"a\": \"p3\", \"label\": 1}\n" +
      deep + "\n{\"a\": " + deep + ", \"b\": \"p4\"}\n");
  EXPECT_EQ(pairs->size(), 15U);
  Findings findings;
  std::map<std::string, std::uint64_t> labels;
  class_pair_targets(classes())->check(*pairs, findings, labels);
  EXPECT_EQ(kinds_in(findings), (Kinds{{"pair-unknown-page", 1},
                                       {"pair-same-page", 1},
                                       {"pair-ambiguous-page", 1},
                                       {"missing-key", 1},
                                       {"wrong-type", 2},
                                       {"repeated-key", 1},
                                       {"bad-json", 3},
                                       {"pair-twice", 1},
                                       {"pair-contradiction", 1},
                                       {"label-missing", 1},
                                       {"label-unknown", 1}}));
  EXPECT_EQ(labels, (Kinds{{"0", 1}, {"1", 2}}));
  const std::string text = findings.to_text();
  for (const char* said : {"pairs.jsonl:2, `b`", "\"p9\"", "pairs.jsonl:3", "pairs.jsonl:11, 'p3' and 'p4'",
                           "pairs.jsonl:12, 'p1' and 'p4'", "first at"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  }
}

// Whether one page follows from another is asked in both directions; whether they are alike is not.
TEST_F(PairPages, OfClassesMayHaveAnotherLabelInTheOtherOrder) {
  write_pages(kFivePages);
  const auto pairs = read(
      "{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n{\"a\": \"p2\", \"b\": \"p1\", \"label\": 0}\n"
      "{\"a\": \"p3\", \"b\": \"p4\", \"label\": 1}\n{\"a\": \"p4\", \"b\": \"p3\", \"label\": 1}\n");
  std::map<std::string, std::uint64_t> labels;
  Findings of_classes, of_similarities;
  class_pair_targets(classes())->check(*pairs, of_classes, labels);
  EXPECT_EQ(kinds_in(of_classes), Kinds{});
  similarity_targets()->check(*pairs, of_similarities, labels);
  EXPECT_EQ(kinds_in(of_similarities), (Kinds{{"pair-contradiction", 1}, {"pair-twice", 1}}));
}

TEST_F(PairPages, OfBothTrainingAndEvaluationAreTold) {
  write_pages(kFivePages);
  const auto trained =
      read("{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n{\"a\": \"p1\", \"b\": \"p9\", \"label\": 1}\n");
  const auto held_out = read(
      "{\"a\": \"p2\", \"b\": \"p1\", \"label\": 1}\n{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n"
      "{\"a\": \"p1\", \"b\": \"p9\", \"label\": 1}\n");
  Findings findings, in_any_order;
  held_out->check_held_out(*trained, PairOrder::kAnother, findings);
  EXPECT_EQ(kinds_in(findings), (Kinds{{"pair-in-both", 1}}));
  held_out->check_held_out(*trained, similarity_targets()->order(), in_any_order);
  EXPECT_EQ(kinds_in(in_any_order), (Kinds{{"pair-in-both", 2}}));
  EXPECT_THAT(findings.to_text(), testing::HasSubstr("pairs.jsonl:2, 'p1' and 'p2'"));
}

TEST_F(PairPages, ThatRankMayContradictEachOther) {
  write_pages(kFivePages);
  const auto pairs = read("{\"a\": \"p1\", \"b\": \"p2\"}\n{\"a\": \"p2\", \"b\": \"p1\"}\n");
  Findings findings;
  std::map<std::string, std::uint64_t> labels;
  preference_targets()->check(*pairs, findings, labels);
  EXPECT_EQ(kinds_in(findings), (Kinds{{"pair-contradiction", 1}}));
  EXPECT_EQ(findings.count(Severity::kError), 0U);
}

TEST_F(PairPages, ThatRankAreToldThatLabelsAreNotRead) {
  write_pages(kFivePages);
  const auto pairs = read("{\"a\": \"p1\", \"b\": \"p2\", \"label\": 0}\n{\"a\": \"p2\", \"b\": \"p3\"}\n");
  Findings findings;
  std::map<std::string, std::uint64_t> labels;
  preference_targets()->check(*pairs, findings, labels);
  EXPECT_EQ(kinds_in(findings), (Kinds{{"label-not-read", 1}}));
  EXPECT_EQ(findings.count(Severity::kError), 0U);
}

TEST_F(PairPages, BecomeTwoSamplesEach) {
  write_pages(kFivePages);
  const auto pairs = read(
      "{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n{\"a\": \"p4\", \"b\": \"p1\", \"label\": \"0\"}\n"
      "{\"a\": \"p1\", \"b\": \"p3\", \"label\": 0}\n");
  const Dataset data = data_of(pairs, class_pair_targets(classes()));
  EXPECT_EQ(counts_.parsed, kFivePages.size()) << "however many pairs name a page";
  EXPECT_EQ(counts_.tokenized, kFivePages.size());
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data.samples_per_example(), 2);
  EXPECT_EQ(data.examples()[1].tokens, 2 + 5 + 2 + 2);
  EXPECT_EQ(data.examples()[1].loss_terms, 1);
  Dataset::Scratch scratch;
  EncodedExample example;
  data.load(1, scratch, example);
  EXPECT_EQ(example.input_ids.size(), 7U);
  EXPECT_EQ(example.targets, std::vector<std::int32_t>{0});
  data.load(1, scratch, example, {}, 0, 1);
  EXPECT_EQ(example.input_ids.size(), 4U);
  EXPECT_EQ(example.targets, std::vector<std::int32_t>{kIgnoredLabel});
  const Page page = data.source().read(1);
  EXPECT_EQ(page.id, "p4 and p1");
  EXPECT_EQ(page.line, 2U);
  EXPECT_EQ(pair_of(page).second.words, std::vector<std::string>{"bb"});
}

TEST_F(PairPages, AreRefusedWhereAPageIsLongerThanAWindow) {
  write_pages({page_of("abcdefghijkl"), page_of("b"), page_of("c")});
  const auto pairs =
      read("{\"a\": \"p1\", \"b\": \"p2\", \"label\": 1}\n{\"a\": \"p0\", \"b\": \"p2\", \"label\": 1}\n");
  const auto with = [&](LongPages long_pages) {
    return Dataset(pages_, small_processor(),
                   {.parts = kTextAlone,
                    .windows = {.max_length = 8, .stride = 2, .long_pages = long_pages},
                    .pairs = pairs,
                    .pair_targets = class_pair_targets(classes()),
                    .trains = true});
  };
  expect_error<PageError>([&] { with(LongPages::kWindows); }, {"longer than a window", "p0"});
  EXPECT_EQ(with(LongPages::kTruncate).examples()[1].tokens, 8 + 3);
}

TEST_F(PairPages, OfOneGroupAreNeverEachOthersNegatives) {
  write_pages({page_of("a", "x"), page_of("b", "x"), page_of("c"), page_of("d"), page_of("e"), page_of("f")},
              &page_group_reader());
  const auto pairs = read(
      "{\"a\": \"p0\", \"b\": \"p2\", \"label\": 1}\n{\"a\": \"p3\", \"b\": \"p4\", \"label\": 1}\n"
      "{\"a\": \"p0\", \"b\": \"p5\", \"label\": 0}\n",
      group_of_page);
  EXPECT_EQ(pairs->group(1), pairs->group(2)) << "by the group of 0, and by a pair";
  EXPECT_EQ(pairs->group(3), pairs->group(4));
  EXPECT_NE(pairs->group(0), pairs->group(3));
  EXPECT_NE(pairs->group(0), pairs->group(5));
  const Dataset data = data_of(pairs, similarity_targets());
  EXPECT_EQ(data.size(), 2U) << "pairs that do not belong together are not trained on";
  EXPECT_EQ(data_of(pairs, similarity_targets(), false).size(), 3U);
}

// There is nothing to tell them from: the loss would be 0 from the first update on.
TEST_F(PairPages, OfOneGroupAloneTeachNothing) {
  write_pages(kFivePages);
  const auto said = [this](const std::string& lines) {
    Findings findings;
    std::map<std::string, std::uint64_t> labels;
    similarity_targets()->check(*read(lines), findings, labels);
    return findings.count("nothing-to-learn");
  };
  const auto pair = [](const char* a, const char* b, int label) {
    return fmt::format(R"({{"a": "{}", "b": "{}", "label": {}}})", a, b, label) + "\n";
  };
  EXPECT_EQ(said(pair("p0", "p1", 1)), 1U);
  EXPECT_EQ(said(pair("p0", "p1", 1) + pair("p1", "p2", 1) + pair("p3", "p4", 0)), 1U);
  EXPECT_EQ(said(pair("p0", "p1", 1) + pair("p2", "p3", 1)), 0U);
  EXPECT_EQ(said(pair("p0", "p1", 0)), 1U);
}

TEST(PairHeads, HaveTwoSamplesOfTheEncoderForEachExample) {
  const std::shared_ptr<const Encoder> encoder = preset_config("layoutlmv3-tiny").encoder;
  const std::int64_t hidden = encoder->facts().hidden_size;
  for (const Task* task : {&pair_classification_task(), &pair_ranking_task(), &pair_similarity_task()}) {
    SCOPED_TRACE(task->name());
    TaskConfig config{.architecture = std::string(task->architecture()), .labels = task->unnamed_labels()};
    const ModelDefinition model = task->model(encoder, config);
    EXPECT_EQ(model.samples_per_example(), 2);
    EXPECT_EQ(model.samples({.samples = 3, .text_rows = 90}), 6);
    const ModelGraph graph = model.build({.samples = 3, .text_rows = 90}, true);
    const std::int64_t columns = task == &pair_similarity_task() ? hidden : 2;
    EXPECT_EQ(graph.graph.type(graph.logits), (TensorType{DType::kF32, {6, columns}}));
  }
}

// Logits and labels as a batch has them, for scorers.
class ScoredPairs : public PairPages {
 protected:
  void begin(const std::string& lines, const std::shared_ptr<const PairTargets>& targets) {
    write_pages(kFivePages);
    pairs_ = read(lines);
    data_.emplace(data_of(pairs_, targets, false));
  }
  void add(WindowReader& reader, std::uint32_t pair, std::vector<float> first, std::vector<float> second) {
    const auto width = static_cast<std::int64_t>(first.size());
    const TensorType labels{DType::kI32, {2}};
    Batch batch({.max_samples = 2,
                 .max_text_rows = 32,
                 .inputs = {{.name = std::string(input::kSampleOffsets), .type = {DType::kI32, {3}}},
                            {.name = std::string(input::kLabels), .type = labels, .target = {.names = {"labels"}}}}});
    batch.begin();
    Dataset::Scratch scratch;
    EncodedExample example;
    for (int side : {0, 1}) {
      data_->load(pair, scratch, example, {}, 0, side);
      batch.add(example, {.page = pair, .window = static_cast<std::uint16_t>(side), .windows = 2}, side);
    }
    batch.finish();
    std::vector<float> logits = std::move(first);
    logits.insert(logits.end(), second.begin(), second.end());
    const TensorView view({DType::kF32, {2, width}}, reinterpret_cast<std::byte*>(logits.data()));
    reader.begin_page(pair);
    EXPECT_TRUE(reader.add_window(batch, 0, view));
    EXPECT_TRUE(reader.add_window(batch, 1, view));
    reader.end_page();
  }

  std::shared_ptr<const Pairs> pairs_;
  std::optional<Dataset> data_;
};

TEST_F(ScoredPairs, OfClasses) {
  begin(
      "{\"a\": \"p0\", \"b\": \"p1\", \"label\": 1}\n{\"a\": \"p0\", \"b\": \"p2\", \"label\": 0}\n"
      "{\"a\": \"p0\", \"b\": \"p3\", \"label\": 1}\n",
      class_pair_targets(classes()));
  const auto scorer = pair_class_scorer(classes());
  add(*scorer, 0, {0, 2}, {9, 0});
  EXPECT_NEAR(scorer->page_loss(), std::log1p(std::exp(-2.0)), 1e-9);
  add(*scorer, 1, {3, 1}, {0, 9});
  add(*scorer, 2, {1, 0}, {0, 9});
  const Scores scores = scorer->scores();
  EXPECT_DOUBLE_EQ(scores.metrics[0].value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.metrics[1].value, 2 * 1 * 0.5 / 1.5) << "precision 1, recall 1/2";
  EXPECT_EQ(scores.support, 3U);
  const auto written = pair_class_predictions(classes(), {.all_scores = true});
  add(*written, 0, {0, 2}, {9, 0});
  const json line = written->to_json(data_->source().read(0));
  EXPECT_EQ(line["a"], "p0");
  EXPECT_EQ(line["b"], "p1");
  EXPECT_EQ(line["label"], "1");
  EXPECT_NEAR(line["confidence"].get<double>(), 1 / (1 + std::exp(-2.0)), 1e-9);
  EXPECT_EQ(line["scores"].size(), 2U);
}

TEST_F(ScoredPairs, OfPreferences) {
  begin("{\"a\": \"p0\", \"b\": \"p1\"}\n{\"a\": \"p1\", \"b\": \"p2\"}\n{\"a\": \"p2\", \"b\": \"p3\"}\n",
        preference_targets());
  const auto scorer = preference_scorer();
  add(*scorer, 0, {2, 1}, {0, 0});
  add(*scorer, 1, {1, 1}, {0, 0});
  EXPECT_NEAR(scorer->page_loss(), std::log(2.0), 1e-12);
  add(*scorer, 2, {-1, -5}, {0, 0});
  EXPECT_DOUBLE_EQ(scorer->scores().metrics[0].value, 2.0 / 3) << "equal scores are wrong";
  const auto written = preference_predictions();
  add(*written, 2, {-5, -1}, {0, 0});
  const json line = written->to_json(data_->source().read(2));
  EXPECT_EQ(line["preferred"], "b");
  EXPECT_EQ(line["scores"], json({-5, -1}));
  EXPECT_NEAR(line["confidence"].get<double>(), 1 / (1 + std::exp(-4.0)), 1e-9);
}

TEST_F(ScoredPairs, OfSimilarities) {
  begin(
      "{\"a\": \"p0\", \"b\": \"p1\", \"label\": 1}\n{\"a\": \"p2\", \"b\": \"p3\", \"label\": 1}\n"
      "{\"a\": \"p0\", \"b\": \"p2\", \"label\": 0}\n",
      similarity_targets());
  const auto scorer = similarity_scorer(*data_);
  add(*scorer, 0, {1, 0}, {10, 1});
  add(*scorer, 1, {0, 3}, {2, 1});
  add(*scorer, 2, {1, 0}, {0, 3});
  const Scores scores = scorer->scores();
  // p0 and p1 find each other, and p2 finds p3, which is nearer to p0 and p1.
  EXPECT_DOUBLE_EQ(scores.metrics[0].value, 3.0 / 4);
  EXPECT_DOUBLE_EQ(scores.metrics[1].value, 1);
  EXPECT_DOUBLE_EQ(scores.metrics[2].value, 1);
  EXPECT_NEAR(scores.metrics[3].value, 1 / std::sqrt(5.0), 1e-6);
  const auto written = similarity_predictions({.all_scores = true});
  add(*written, 1, {0, 3}, {2, 1});
  const json line = written->to_json(data_->source().read(1));
  EXPECT_NEAR(line["cosine"].get<double>(), 1 / std::sqrt(5.0), 1e-6);
  EXPECT_EQ(line["embeddings"][0], json({0, 1}));
}

}  // namespace
}  // namespace plimsoll::test
