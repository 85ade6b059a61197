// Classes of pages: what `label` may be, what windows are trained towards, scores, predictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "tasks/sequence_classification/classes.h"
#include "tasks/sequence_classification/targets.h"
#include "tasks/sequence_classification/task.h"
#include "tasks/task_pages.h"
#include "tasks/tasks.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

using Kinds = std::map<std::string, std::uint64_t>;

// Pages of one word, each with the label that is given; null: without one.
class Labels : public TaskPages {
 protected:
  std::shared_ptr<const TokenizedPages> open(const std::vector<json>& labels, const std::string& word = "word") const {
    std::vector<json> pages;
    for (const json& label : labels) {
      pages.push_back({{"words", {word}}});
      if (!label.is_null()) pages.back()["label"] = label;
    }
    return open_with(pages, page_label_reader());
  }
  TaskConfig seen(const std::vector<json>& labels, const TaskConfig& config = {}) {
    return page_labels_in(*open(labels), config).config;
  }
  // The kinds of what is found in pages whose classes are theirs.
  Kinds kinds(const std::vector<json>& labels, const TaskConfig& config = {}) {
    const auto pages = open(labels);
    SeenTargets found = page_labels_in(*pages, config);
    found.findings.merge(checked(pages, page_label_targets(found.config)).findings);
    return kinds_in(found.findings);
  }
  Dataset dataset(const std::vector<json>& labels, const TaskConfig& config, const std::string& word = "word",
                  const WindowOptions& windows = {}) {
    return Dataset(open(labels, word), ImageProcessor({}),
                   {.parts = kTextAlone, .windows = windows, .targets = page_label_targets(config)});
  }
};

TEST_F(Labels, TellTheProblem) {
  const TaskConfig single = seen({"b", nullptr, "a", "b"});
  EXPECT_EQ(single.problem_type, "single_label_classification");
  EXPECT_THAT(single.labels, ElementsAre("a", "b"));
  const TaskConfig multi = seen({json::array(), {"y", "x"}, json::array({"z"})});
  EXPECT_EQ(multi.problem_type, "multi_label_classification");
  EXPECT_THAT(multi.labels, ElementsAre("x", "y", "z"));
  const TaskConfig number = seen({1.5, -2, 3});
  EXPECT_EQ(number.problem_type, "regression");
  EXPECT_THAT(number.labels, ElementsAre("LABEL_0"));
}

TEST_F(Labels, OfAProblemThatIsGiven) {
  const TaskConfig numbers = seen({0, 2, 2}, {.problem_type = "single_label_classification"});
  EXPECT_THAT(numbers.labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(seen({"a", "b"}, {.problem_type = "multi_label_classification"}).labels, ElementsAre("a", "b"));
  const TaskConfig number = seen({"a"}, {.problem_type = "regression"});
  expect_error<PageError>([&] { dataset({"a"}, number); }, {"\"a\"", "a number", "pages.jsonl:1"});
  const TaskConfig single = seen({1.5}, {.problem_type = "single_label_classification"});
  expect_error<PageError>([&] { dataset({1.5}, single); }, {"1.5"});
}

// The problem is what most labels are; of several kinds that are as frequent, the first one.
TEST_F(Labels, OfTwoKindsAreRefused) {
  const auto refused = [&](const std::vector<json>& labels, std::initializer_list<std::string_view> named) {
    expect_error<PageError>([&] { dataset(labels, seen(labels)); }, named);
  };
  refused({"a", 2.5}, {"pages.jsonl:2", "2.5", "--problem-type"});
  refused({"a", {"a", "b"}}, {"pages.jsonl:2", "a list of 2 names"});
  refused({{"a"}, 1}, {"pages.jsonl:2"});
  refused({{"a"}, 1, 2}, {"pages.jsonl:1", "does not suit regression"});
}

TEST_F(Labels, ThatAreWrongAreAllFoundAtOnce) {
  EXPECT_EQ(kinds({"other", {"a", "b"}, nullptr, 2.5, {{"x", 1}}, "other", "one"}),
            (Kinds{{"label-kind", 2}, {"label-missing", 1}, {"wrong-type", 1}}));
  EXPECT_EQ(kinds({{{"x", 1}}, 1.5, "one", 2.5}), (Kinds{{"label-kind", 1}, {"wrong-type", 1}}));
  // Where nothing can be read, the first fault says so.
  expect_error<PageError>([&] { seen({{{"x", 1}}, nullptr}); }, {"pages.jsonl:1", "{\"x\":1}"});
}

TEST_F(Labels, ThatAreNumbersMeanTheClassesOfTheModel) {
  const TaskConfig own{.labels = {"food", "hotel", "taxi"}, .problem_type = "single_label_classification"};
  EXPECT_THAT(seen({2, 0}, own).labels, ElementsAre("food", "hotel", "taxi"));
  EXPECT_THAT(seen({3, 0}, own).labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"));
  EXPECT_THAT(seen({"food", "bar"}, own).labels, ElementsAre("bar", "food"));
  // As in transformers, also where the head's problem is not named: it has several outputs, and the labels are whole.
  const TaskConfig open{.labels = {"LABEL_0", "LABEL_1"}};
  EXPECT_EQ(seen({1, 0}, open).problem_type, "single_label_classification");
  EXPECT_EQ(seen({1, 0}, open).labels, open.labels);
  EXPECT_EQ(seen({1, 2}, open).problem_type, "regression");
  // Classes that have names do not become one number because of a wrong label.
  const TaskConfig named{.labels = {"food", "hotel", "taxi"}};
  expect_error<PageError>([&] { seen({1, 3}, named); }, {"pages.jsonl:2", "none of the model's classes", "0 to 2"});
  EXPECT_EQ(seen({1.5, 3}, named).problem_type, "regression");
  const TaskConfig numbered{.labels = {"1", "2", "3"}};
  expect_error<PageError>([&] { seen({3, 5}, numbered); }, {"pages.jsonl:2", "found:   5", "1, 2, 3"});
}

// "2" may be a class's name, and then 2 is this class and not the third one.
TEST_F(Labels, ThatAreNumbersAndNamesAreNames) {
  const TaskConfig years{.labels = {"2021", "2022"}, .problem_type = "single_label_classification"};
  EXPECT_EQ(seen({2021, 2022}, years).labels, years.labels);
  const TaskConfig marks{.labels = {"1", "2", "3"}, .problem_type = "single_label_classification"};
  const Dataset data = dataset({1, 3, "2"}, marks);
  EXPECT_THAT(load(data, 0).targets, ElementsAre(0));
  EXPECT_THAT(load(data, 1).targets, ElementsAre(2));
  EXPECT_THAT(load(data, 2).targets, ElementsAre(1));
  EXPECT_THAT(seen({"1", 1, "10"}).labels, ElementsAre("1", "10"));
  // Three numbers are three classes: 0 is none of these, and is not the first.
  EXPECT_THAT(seen({0, 1, 2}, marks).labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  expect_error<PageError>([&] { dataset({0, 1, 2}, marks); }, {"pages.jsonl:1", "1, 2, 3"});
  expect_error<PageError>([&] { seen({"a", 1, "b", "a"}); }, {"pages.jsonl:2", "names"});
}

// Python writes NaN for a number that is missing, which is read as an object; a class may be called "NaN".
TEST_F(Labels, ThatAreNotFiniteAreNoNames) {
  EXPECT_EQ(kinds({"one", {{"", "NaN"}}, "two", {{"", "Infinity"}}}), (Kinds{{"wrong-type", 2}}));
  EXPECT_EQ(kinds({"one", "NaN", "two", "NaN"}), Kinds());
}

TEST_F(Labels, ThatAreAloneAmongListsAreListsOfOne) {
  const std::vector<json> labels = {"a", {"b", "c"}, json::array({"b"})};
  EXPECT_THAT(seen(labels).labels, ElementsAre("a", "b", "c"));
  EXPECT_EQ(seen(labels).problem_type, "multi_label_classification");
  EXPECT_EQ(kinds(labels), (Kinds{{"label-alone", 1}}));
  EXPECT_EQ(kinds(labels, {.problem_type = "multi_label_classification"}), Kinds());  // it was meant
}

// `datasets` and PyTorch's binary cross-entropy have 0 or 1 for each class.
TEST_F(Labels, MayBeMultiHot) {
  const std::vector<json> labels = {json::array({0, 1, 0}), json::array({1.0, 1.0, 0.0}),
                                    json::array({false, false, true}), json::array({0, 0, 0})};
  const TaskConfig numbered = seen(labels);
  EXPECT_EQ(numbered.problem_type, "multi_label_classification");
  EXPECT_THAT(numbered.labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_EQ(kinds(labels), Kinds());
  const TaskConfig own{.labels = {"c", "b", "a"}, .problem_type = "multi_label_classification"};
  EXPECT_EQ(seen(labels, own).labels, own.labels);
  EXPECT_THAT(seen(labels, {.labels = {"c", "b"}}).labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  const Dataset data = dataset(labels, own);
  const std::int32_t one = std::bit_cast<std::int32_t>(1.0F);
  EXPECT_THAT(load(data, 0).targets, ElementsAre(0, one, 0));
  EXPECT_THAT(load(data, 1).targets, ElementsAre(one, one, 0));
  EXPECT_THAT(load(data, 2).targets, ElementsAre(0, 0, one));
  EXPECT_THAT(load(data, 3).targets, ElementsAre(0, 0, 0));
  // A list of another length names no classes, and beside names the order of the numbers is not known.
  EXPECT_EQ(kinds({json::array({0, 1, 0}), json::array({1, 0})}), (Kinds{{"label-length", 1}}));
  EXPECT_EQ(kinds({json::array({0, 1, 0}), json::array({1, 2, 0})}), (Kinds{{"wrong-type", 1}}));
  expect_error<PageError>([&] { seen({{"a", "b"}, json::array({1, 0})}); }, {"pages.jsonl:2", "names"});
  EXPECT_EQ(kinds({json::array({0, 0}), json::array({0, 0})}), (Kinds{{"nothing-to-learn", 1}}));
}

TEST_F(Labels, ThatAreWholeNumbersMayBeMeantAsClasses) {
  const Findings said = page_labels_in(*open({0, 2, 1, 2}), {}).findings;
  ASSERT_EQ(said.count("labels-whole"), 1U);
  EXPECT_EQ(said.sorted()[0].severity, Severity::kWarning);
  EXPECT_EQ(said.sorted()[0].first.what,
            "labels are whole numbers 0 to 2: taken as regression; --problem-type single_label_classification makes "
            "them classes");
  for (const char* problem : {"regression", "single_label_classification"}) {
    EXPECT_TRUE(page_labels_in(*open({0, 2, 1}), {.problem_type = problem}).findings.empty()) << problem;
  }
  EXPECT_TRUE(page_labels_in(*open({0, 2, 1.5}), {}).findings.empty());
  EXPECT_TRUE(page_labels_in(*open({-1, 2}), {}).findings.empty());
  EXPECT_TRUE(page_labels_in(*open({120, 2450}), {}).findings.empty());
}

TEST_F(Labels, ThatFloatsCannotHoldAreRefused) {
  EXPECT_EQ(kinds({1e39, 1.5, -1e30, 1e18}), (Kinds{{"label-range", 2}}));
  const auto pages = open({1e39});
  expect_error<PageError>([&] { pages->read(0); }, {"pages.jsonl:1", "1e+39", "-1e+18 to 1e+18"});
}

TEST_F(Labels, FromWhichNothingCanBeLearnedAreSaid) {
  EXPECT_EQ(kinds({json::array(), json::array()}), (Kinds{{"nothing-to-learn", 1}}));
  EXPECT_EQ(kinds({"a", "a"}), (Kinds{{"nothing-to-learn", 1}}));
  EXPECT_EQ(kinds({"a", "b", "a"}), Kinds());
  EXPECT_EQ(kinds({json::array(), {"a", "b"}}), Kinds());
}

// A page that has the keys of another task gets the task named.
TEST_F(Labels, OfAnotherTaskNameIt) {
  const auto remedy = [&](const json& page) {
    const auto pages = open_with({page}, page_label_reader());
    const auto thrown = caught<DataError>([&] { page_labels_in(*pages, {}); });
    const CheckReport report = checked(pages, page_label_targets({.labels = {"a", "b"}}));
    EXPECT_EQ(report.findings.sorted().at(0).first.remedy, thrown.problem().remedy);
    return thrown.problem().remedy;
  };
  const json words = {"a"};
  EXPECT_EQ(
      remedy({{"words", words}, {"labels", {"O"}}}),
      "pass --task token-classification (to check, plan or train), which reads the page's `labels`; otherwise label "
      "the page, or omit it");
  EXPECT_THAT(remedy({{"words", words}, {"questions", json::array()}}),
              testing::HasSubstr("pass --task question-answering (to"));
  EXPECT_THAT(remedy({{"words", words}, {"entities", json::array()}, {"questions", json::array()}}),
              testing::HasSubstr("or --task relation-extraction (to"));
  EXPECT_EQ(remedy({{"words", words}, {"labels", nullptr}}), "label the page, or omit it");
}

TEST_F(Labels, ThatAreMissingAreSaid) {
  expect_error<DataError>([&] { seen({nullptr, nullptr}); }, {"no page has a label", "2 pages", "pages.jsonl:1"});
  const TaskConfig config = seen({"a", "b"});
  expect_error<PageError>([&] { dataset({"a", nullptr}, config); }, {"a page has no label", "pages.jsonl:2"});
}

TEST_F(Labels, OfAWrongTypeAreRefused) {
  for (const json& bad : {json(true), json::object(), json(""), json("  "), json({"a", 1}), json({"a", ""})}) {
    const auto pages = open({bad});
    expect_error<PageError>(
        [&] { pages->read(0); },
        {"`label`", "a class's name, a list of names, a list of 0 or 1 for each class, or a number"});
    PageFaults faults;
    EXPECT_EQ(label_of(pages->read(0, &faults)), nullptr);
    EXPECT_EQ(faults.size(), 1U) << bad;
  }
}

TEST_F(Labels, BecomeTargetsOfEachWindow) {
  const WindowOptions windows{.max_length = 6, .stride = 0};
  const TaskConfig single{.labels = {"x", "y", "z"}, .problem_type = "single_label_classification"};
  const Dataset classes = dataset({"z", 1}, single, "abcdefg", windows);
  ASSERT_EQ(classes.size(), 4U);  // two windows a page
  EXPECT_THAT(load(classes, 1).targets, ElementsAre(2));
  EXPECT_THAT(load(classes, 2).targets, ElementsAre(1));
  EXPECT_EQ(classes.examples()[0].loss_terms, 1);
  TaskConfig multi = single;
  multi.problem_type = "multi_label_classification";
  const Dataset several = dataset({{"z", "x"}, json::array()}, multi);
  const auto one = std::bit_cast<std::int32_t>(1.0F);
  EXPECT_THAT(load(several, 0).targets, ElementsAre(one, 0, one));
  EXPECT_THAT(load(several, 1).targets, ElementsAre(0, 0, 0));
  EXPECT_EQ(several.examples()[0].loss_terms, 3);
  const Dataset numbers = dataset({-2.5}, {.labels = {"LABEL_0"}, .problem_type = "regression"});
  EXPECT_THAT(load(numbers, 0).targets, ElementsAre(std::bit_cast<std::int32_t>(-2.5F)));
}

TEST_F(Labels, OutsideTheSetNameThePage) {
  const TaskConfig config{.labels = {"x", "y"}, .problem_type = "single_label_classification"};
  expect_error<PageError>([&] { dataset({"x", "q"}, config); }, {"pages.jsonl:2", "\"q\"", "x, y"});
  expect_error<PageError>([&] { dataset({2}, config); }, {"pages.jsonl:1", "0 to 1"});
  EXPECT_TRUE(sequence_classification_task().find_unknown_label(*open({"x", "q"}), LabelSet::parse("x,y")));
  EXPECT_FALSE(sequence_classification_task().find_unknown_label(*open({"x", "y"}), LabelSet::parse("x,y")));
}

TEST_F(Labels, AreCheckedPageByPage) {
  const TaskConfig config{.labels = {"x", "y"}, .problem_type = "single_label_classification"};
  const auto targets = page_label_targets(config);
  const auto pages = open({"x", "q", nullptr, {"x"}});
  Findings findings;
  std::map<std::string, std::uint64_t> counts;
  for (std::size_t i = 0; i < pages->size(); ++i) targets->check(pages->read(i), true, findings, counts);
  EXPECT_EQ(counts, (std::map<std::string, std::uint64_t>{{"x", 1}}));
  for (const char* kind : {"label-unknown", "label-missing", "label-kind"}) EXPECT_EQ(findings.count(kind), 1U) << kind;
}

// A batch of `samples` rows of one token, whose labels are `gold`, one page each; and logits.
class Scored {
 public:
  Scored(const TaskConfig& config, std::int64_t samples)
      : config_(config), single_(class_problem(config) == ClassProblem::kSingleLabel) {
    const std::int64_t labels = config.num_labels();
    shape_ = {.max_samples = samples, .max_text_rows = samples};
    const TensorType type = single_ ? TensorType{DType::kI32, {samples}} : TensorType{DType::kF32, {samples, labels}};
    shape_.inputs = {
        {.name = "sample_offsets", .type = {DType::kI32, {samples + 1}}},
        {.name = "labels", .type = type, .target = {.names = {"labels"}, .shape = single_ ? Shape() : Shape{labels}}}};
  }
  // The pages' windows: page, targets (as numbers), logits.
  struct Window {
    std::uint32_t page;
    std::vector<float> gold, logits;
  };
  void feed(WindowReader& reader, const std::vector<Window>& windows) const {
    Batch batch(shape_);
    batch.begin();
    std::vector<float> logits;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      EncodedExample example;
      example.input_ids = {1};
      example.bbox = {Box1000{}};
      example.labels = {kIgnoredLabel};
      example.predicts = {kNoWord};
      for (const float value : windows[i].gold) {
        example.targets.push_back(single_ ? static_cast<std::int32_t>(value) : std::bit_cast<std::int32_t>(value));
      }
      example.loss_terms = std::ssize(example.targets);
      batch.add(example, {.page = windows[i].page}, 0);
      logits.insert(logits.end(), windows[i].logits.begin(), windows[i].logits.end());
    }
    batch.finish();
    const auto rows = static_cast<std::int64_t>(windows.size());
    const TensorView view({DType::kF32, {rows, config_.num_labels()}}, reinterpret_cast<std::byte*>(logits.data()));
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::uint32_t page = windows[static_cast<std::size_t>(i)].page;
      if (i == 0 || windows[static_cast<std::size_t>(i - 1)].page != page) reader.begin_page(page);
      ASSERT_TRUE(reader.add_window(batch, i, view));
      if (i + 1 == rows || windows[static_cast<std::size_t>(i + 1)].page != page) reader.end_page();
    }
  }

 private:
  TaskConfig config_;
  bool single_;
  BatchShape shape_;
};

double metric(const Scores& scores, const std::string& name) {
  for (const Scores::Metric& each : scores.metrics) {
    if (each.name == name) return each.value;
  }
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

// The expected values are scikit-learn's: accuracy_score, f1_score(average="macro" and "micro"), each by hand.
TEST(ClassScorer, OfSingleLabels) {
  const TaskConfig config{.labels = {"a", "b", "c", "never"}, .problem_type = "single_label_classification"};
  const auto scorer = class_scorer(config);
  Scored(config, 5).feed(*scorer, {{0, {0}, {3, 1, 0, 0}},
                                   {1, {0}, {0, 2, 0, 0}},  // wrong: b
                                   {2, {1}, {0, 2, 0, 0}},
                                   {3, {2}, {1, 0, 0, 0}},  // alone it would be a; the mean of both windows is c
                                   {3, {2}, {0, 0, 5, 0}}});
  const Scores scores = scorer->scores();
  EXPECT_DOUBLE_EQ(metric(scores, "accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(metric(scores, "f1_micro"), 0.75);
  EXPECT_DOUBLE_EQ(metric(scores, "f1_macro"), (2.0 / 3 + 2.0 / 3 + 1) / 3);
  ASSERT_EQ(scores.labels.size(), 3U);  // a class that never occurs has no row
  EXPECT_EQ(scores.labels[0].name, "a");
  EXPECT_DOUBLE_EQ(scores.labels[0].precision, 1);
  EXPECT_DOUBLE_EQ(scores.labels[0].recall, 0.5);
  EXPECT_EQ(scores.support, 4U);
}

TEST(ClassScorer, OfSeveralLabels) {
  const TaskConfig config{.labels = {"a", "b", "c"}, .problem_type = "multi_label_classification"};
  const auto scorer = class_scorer(config);
  Scored(config, 3).feed(*scorer,
                         {{0, {1, 0, 1}, {2, -1, 0.5F}}, {1, {0, 1, 0}, {1, 1, -1}}, {2, {0, 0, 0}, {-1, -1, -1}}});
  const Scores scores = scorer->scores();
  EXPECT_DOUBLE_EQ(metric(scores, "accuracy"), 2.0 / 3);            // pages whose labels are all right
  EXPECT_DOUBLE_EQ(metric(scores, "f1_micro"), 2 * 3.0 / (4 + 3));  // 3 right of 4 predicted and 3 in the data
  EXPECT_DOUBLE_EQ(metric(scores, "f1_macro"), (2.0 / 3 + 1 + 1) / 3);
}

TEST(ClassScorer, OfNumbers) {
  const TaskConfig config{.labels = {"LABEL_0"}, .problem_type = "regression"};
  const auto scorer = class_scorer(config);
  Scored(config, 2).feed(*scorer, {{0, {1}, {2}}, {1, {-3}, {0}}});
  const Scores scores = scorer->scores();
  EXPECT_DOUBLE_EQ(metric(scores, "mse"), 5);
  EXPECT_DOUBLE_EQ(metric(scores, "mae"), 2);
  EXPECT_TRUE(scores.metrics.front().smaller_is_better);
}

TEST(ClassOutput, SaysWhatEachProblemGives) {
  Page page;
  page.id = "p";
  const auto predicted = [&page](const TaskConfig& config, const std::vector<float>& logits) {
    const auto predictions = class_predictions(config, {.all_scores = true});
    std::vector<float> gold(class_problem(config) == ClassProblem::kSingleLabel ? 1 : logits.size());
    Scored(config, 1).feed(*predictions, {{0, gold, logits}});
    return predictions->to_json(page);
  };
  const json single = predicted({.labels = {"a", "b"}}, {0, std::log(3.0F)});
  EXPECT_EQ(single.at("label"), "b");
  EXPECT_NEAR(single.at("confidence").get<double>(), 0.75, 1e-7);
  EXPECT_EQ(single.at("label_names"), json({"a", "b"}));
  EXPECT_NEAR(single.at("scores")[0].get<double>(), 0.25, 1e-7);
  const json multi =
      predicted({.labels = {"a", "b"}, .problem_type = "multi_label_classification"}, {-1, std::log(3.0F)});
  EXPECT_EQ(multi.at("label"), json::array({"b"}));
  EXPECT_NEAR(multi.at("confidence")[0].get<double>(), 0.75, 1e-7);
  const json number = predicted({.labels = {"LABEL_0"}, .problem_type = "regression"}, {-2.5F});
  EXPECT_EQ(number.at("value"), -2.5);
}

TEST(ClassOutput, LogitsThatAreNotFiniteAreSaid) {
  LogitMean mean;
  mean.begin_page();
  std::vector<float> logits = {1, NAN};
  EXPECT_FALSE(mean.add_window(TensorView({DType::kF32, {1, 2}}, reinterpret_cast<std::byte*>(logits.data())), 0));
}

TEST(Tasks, AreFoundByNameAndArchitecture) {
  EXPECT_EQ(&task_of({.architecture = "SequenceClassification"}), &sequence_classification_task());
  EXPECT_EQ(&task_named("sequence-classification"), &sequence_classification_task());
  EXPECT_EQ(task_of({.architecture = "MaskedLM"}).name(), "token-classification");
  expect_error<UsageError>([] { task_named("sequence-clasification"); }, {"did you mean sequence-classification?"});
  std::set<std::string_view> names;
  for (const Task* task : all_tasks()) {
    EXPECT_TRUE(names.insert(task->name()).second);
    EXPECT_EQ(find_task(task->architecture()), task);
  }
}

}  // namespace
}  // namespace plimsoll::test
