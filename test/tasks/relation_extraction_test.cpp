// Links: what `entities` and `links` may be, what windows are trained towards, how windows are put together, scores.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "data/check.h"
#include "support/expect_error.h"
#include "tasks/relation_extraction/entities.h"
#include "tasks/relation_extraction/links.h"
#include "tasks/relation_extraction/results.h"
#include "tasks/relation_extraction/targets.h"
#include "tasks/relation_extraction/task.h"
#include "tasks/task_pages.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;

constexpr std::int64_t kMost = 4;  // E of the small heads here
constexpr std::size_t kPairs = 2 * kMost;

json entity(const char* label, int begin, int end) {
  return {{"label", label}, {"start_word", begin}, {"end_word", end}};
}
json page(const std::vector<std::string>& words, const json& entities, const json& links) {
  return {{"id", "p"}, {"words", words}, {"entities", entities}, {"links", links}};
}

class Entities : public TaskPages {
 protected:
  std::shared_ptr<const TokenizedPages> open(const std::vector<json>& pages) const {
    return open_with(pages, entity_reader());
  }
  Dataset dataset(const std::vector<json>& pages, bool with_links = true, const WindowOptions& windows = {}) const {
    return Dataset(open(pages), ImageProcessor({}),
                   {.parts = kTextAlone, .windows = windows, .targets = link_targets(config_, with_links)});
  }
  // A key, its two values, and a text that is neither.
  json form() const {
    return page({"a", "b", "c", "d"},
                {entity("key", 0, 1), entity("value", 1, 2), entity("value", 2, 3), entity("text", 3, 4)},
                {{0, 1}, {0, 2}});
  }

  const TaskConfig config_{.architecture = "RelationExtraction",
                           .labels = {"key", "text", "value"},
                           .link_labels = {{"key", "value"}},
                           .max_entities = kMost};
};

TEST_F(Entities, AreReadWithTheirLinks) {
  json twice = form();
  twice["links"] = {{0, 2}, {0, 1}, {0, 2}};
  const Page read = open({twice})->read(0);
  const PageEntities* const entities = entities_of(read);
  ASSERT_NE(entities, nullptr);
  EXPECT_TRUE(entities->linked);
  EXPECT_THAT(entities->links, ElementsAre(Pair(0, 1), Pair(0, 2)));  // each once, in order
  ASSERT_EQ(entities->entities.size(), 4U);
  EXPECT_EQ(entities->entities[1].label, "value");
  EXPECT_EQ(entities->entities[1].begin, 1U);
  EXPECT_EQ(entities->entities[1].end, 2U);
}

// What other models predict, and labels of words as data sets have them.
TEST_F(Entities, ComeFromFieldsAndFromLabels) {
  const json words = {"a", "b", "c"};
  json field = entity("key", 0, 2);
  field["confidence"] = 0.75;
  const auto pages = open({{{"words", words}, {"fields", {field}}},
                           {{"words", words}, {"labels", {"B-KEY", "I-KEY", "B-VALUE"}}},
                           {{"words", words}, {"labels", {1, 2, 3}}},
                           {{"words", words}}});
  const Page of_fields = pages->read(0), of_labels = pages->read(1), of_numbers = pages->read(2);
  EXPECT_EQ(entities_of(of_fields)->entities.at(0).confidence, 0.75);
  EXPECT_FALSE(entities_of(of_fields)->linked);
  ASSERT_EQ(entities_of(of_labels)->entities.size(), 2U);
  EXPECT_EQ(entities_of(of_labels)->entities[0].label, "KEY");
  EXPECT_EQ(entities_of(of_labels)->entities[0].end, 2U);
  EXPECT_TRUE(entities_of(of_numbers)->entities.empty());
  EXPECT_EQ(entities_of(pages->read(3)), nullptr);
}

// Both ends of a FUNSD link name it; an entity without words is left out and takes its links along.
TEST_F(Entities, OfFunsdAreReadAsTheyAre) {
  const auto item = [](int id, const char* label, std::vector<std::string> texts, const json& linking) {
    json words = json::array();
    for (const std::string& text : texts) words.push_back({{"text", text}, {"box", {1, 2, 3, 4}}});
    return json{{"id", id}, {"label", label}, {"words", words}, {"linking", linking}};
  };
  const json file = {{"form",
                      {item(0, "other", {"x", " "}, json::array()), item(4, "question", {"y"}, {{4, 9}, {4, 7}}),
                       item(7, "answer", {" "}, {{4, 7}}), item(9, "answer", {"z", "w"}, {{4, 9}})}}};
  const Page read =
      parse_funsd_page(file.dump(), "form.json", "form.png", {.parts = kTextAlone, .target = &entity_reader()});
  EXPECT_THAT(read.words, ElementsAre("x", "y", "z", "w"));
  const PageEntities* const entities = entities_of(read);
  ASSERT_EQ(entities->entities.size(), 3U);
  EXPECT_EQ(entities->entities[2].begin, 2U);
  EXPECT_EQ(entities->entities[2].end, 4U);
  EXPECT_THAT(entities->links, ElementsAre(Pair(1, 2)));
}

// A form of four entities in FUNSD's layout; `change` spoils it.
json funsd_form(const std::function<void(json& form)>& change) {
  json form = json::array();
  for (int i = 0; i < 4; ++i) {
    form.push_back({{"id", i}, {"label", "question"}, {"linking", json::array()}});
    form.back()["words"] = json::array({{{"text", i == 3 ? " " : "w"}, {"box", {1, 2, 3, 4}}}});
  }
  form[0]["linking"] = form[1]["linking"] = {{0, 1}};
  change(form);
  return {{"form", form}};
}

TEST(FunsdForms, AreCheckedForTheirLinks) {
  const auto read = [](const std::function<void(json & form)>& change) {
    PageFaults faults;
    const Page page =
        parse_funsd_page(funsd_form(change).dump(), "form.json", "form.png",
                         {.parts = kTextAlone, .ignore_labels = true, .target = &entity_reader()}, &faults);
    Findings findings;
    for (const PageError& fault : faults) findings.add(Severity::kError, fault.kind(), fault.problem());
    std::map<std::string, std::uint64_t> labels;
    link_targets({.labels = {"question"}}, true)->check(page, true, findings, labels);
    std::string found;
    for (const Finding& finding : findings.sorted()) {
      found += fmt::format("{} {} {}; ", severity_name(finding.severity), finding.count, finding.kind);
    }
    return found;
  };
  EXPECT_EQ(read([](json&) {}), "");
  EXPECT_EQ(read([](json& form) { form[2]["linking"] = {{2, 3}}; }), "");  // entity 3 has no words
  EXPECT_EQ(read([](json& form) { form[2]["linking"] = {{2, 9}, {8, 2}, {2, 9}}; }), "warning 2 link-nowhere; ");
  EXPECT_EQ(read([](json& form) { form[2]["linking"] = {{2, 2}}; }), "warning 1 link-nowhere; ");
  EXPECT_EQ(read([](json& form) { form[2]["id"] = 1; }), "error 1 duplicate-entity; ");
  EXPECT_EQ(read([](json& form) { form[3]["id"] = 1; }), "error 1 duplicate-entity; ");
  EXPECT_EQ(read([](json& form) { form[2]["id"] = "two"; }), "error 1 wrong-type; ");
  EXPECT_EQ(read([](json& form) { form[2]["linking"] = "x"; }), "error 1 wrong-type; ");
  EXPECT_EQ(read([](json& form) { form[2]["linking"] = {1, 2}; }), "error 2 link-outside; ");
}

TEST_F(Entities, ThatAreWrongNameThePageAndTheValue) {
  const json good = entity("key", 0, 1);
  const std::vector<std::tuple<json, json, std::string>> bad = {
      {json::array({entity("key", 1, 1)}), json::array(), "`entities`, number 0"},
      {json::array({good, entity("key", 1, 3)}), json::array(), "`entities`, number 1"},
      {json::array({good, entity("key", -1, 1)}), json::array(), "\"start_word\":-1"},
      {json::array({json("key")}), json::array(), "\"key\""},
      {json::array({{{"label", 7}, {"start_word", 0}, {"end_word", 1}}}), json::array(), "`label`"},
      {json("none"), json::array(), "`entities`"},
      {json::array({good, good}), json::array({{0, 2}}), "link 0"},
      {json::array({good, good}), json::array({{0, 1}, {1, 1}}), "link 1"},
      {json::array({good, good}), json::array({{0, -1}}), "[0,-1]"},
      {json::array({good, good}), json::array({{0}}), "link 0"},
      {json::array({good, good}), json("none"), "`links`"}};
  for (const auto& [entities, links, named] : bad) {
    SCOPED_TRACE(entities.dump() + links.dump());
    const auto pages = open({page({"one", "two"}, entities, links)});
    expect_error<PageError>([&] { pages->read(0); }, {"pages.jsonl:1", named});
    PageFaults faults;
    pages->read(0, &faults);
    EXPECT_EQ(faults.size(), 1U);
  }
}

// A page with one fault has one finding: its entities keep their numbers, and what could not be read is not missing.
TEST_F(Entities, WithFaultsHaveOneFindingEach) {
  using Kinds = std::map<std::string, std::uint64_t>;
  const json key = entity("key", 0, 1), value = entity("value", 1, 2);
  const auto kinds = [this](const json& entities, const json& links) {
    json other = page({"one", "two"}, entities, links);
    other["id"] = "q";
    const auto pages = open({form(), other});
    const TaskConfig seen = relation_extraction_task().seen_in(*pages, {}).config;
    EXPECT_THAT(seen.labels, ElementsAre("key", "text", "value"));
    return kinds_in(checked(pages, link_targets(seen, true)).findings);
  };
  EXPECT_EQ(kinds({key, value}, {{0, 999}}), (Kinds{{"link-outside", 1}}));
  EXPECT_EQ(kinds({key, value}, {{0, 0}}), (Kinds{{"link-outside", 1}}));
  EXPECT_EQ(kinds({key, value}, json::array({{{"from", 0}, {"to", 1}}})), (Kinds{{"link-outside", 1}}));
  EXPECT_EQ(kinds({entity("key", 0, 7), value}, {{1, 0}}), (Kinds{{"entity-outside", 1}}));
  EXPECT_EQ(kinds({entity("", 0, 1), value, key}, {{2, 1}}), (Kinds{{"label-unknown", 1}}));
  EXPECT_EQ(kinds({{{"label", 7}, {"start_word", 0}, {"end_word", 1}}, value, key}, {{2, 1}}),
            (Kinds{{"wrong-type", 1}}));
  EXPECT_EQ(kinds("none", {{0, 1}}), (Kinds{{"wrong-type", 1}}));
  EXPECT_EQ(kinds(json::array(), {{0, 1}}), (Kinds{{"link-outside", 1}}));
  const auto pages = open({page({"one"}, json::array(), {{0, 1}})});
  expect_error<PageError>([&] { pages->read(0); }, {"[0,1] on a page of 0 entities"});
}

TEST_F(Entities, WithoutALabelAmongOthersAreSaid) {
  const json unlabelled = {{"start_word", 0}, {"end_word", 1}};
  const auto said = [this](const std::vector<json>& pages) {
    return relation_extraction_task().seen_in(*open(pages), {}).findings.count("entity-unlabelled");
  };
  EXPECT_EQ(said({page({"a", "b"}, {unlabelled, unlabelled}, json::array())}), 0U);
  EXPECT_EQ(said({page({"a", "b"}, {unlabelled, unlabelled}, json::array()), form()}), 2U);
}

TEST_F(Entities, OfALinkThatNoWindowHoldsAreSaid) {
  std::vector<std::string> words(60, "word");
  const json far = page(words, {entity("key", 0, 1), entity("value", 1, 2), entity("value", 59, 60)}, {{0, 1}, {0, 2}});
  const auto cut = [&](int length) {
    return checked(open({far}), link_targets(config_, true), {.max_length = length, .stride = 0})
        .findings.count("link-cut");
  };
  EXPECT_EQ(cut(16), 1U);
  EXPECT_EQ(cut(512), 0U);
}

TEST_F(Entities, ThatShareWordsAndLinksThatComeTwiceAreSaid) {
  json twice = form();
  twice["links"] = {{0, 1}, {0, 2}, {0, 1}};
  twice["entities"].push_back(entity("text", 0, 2));
  TaskConfig wider = config_;
  wider.max_entities = 8;
  const CheckReport report = checked(open({twice}), link_targets(wider, true));
  EXPECT_EQ(kinds_in(report.findings),
            (std::map<std::string, std::uint64_t>{{"entities-overlap", 2}, {"link-twice", 1}}));
  EXPECT_EQ(report.findings.count(Severity::kWarning), 3U);
  EXPECT_EQ(report.targets, 2U);
  // What is found about each pair of entities is kept until the page is scored.
  const std::uint64_t entities = twice["entities"].size();
  EXPECT_EQ(report.sizes.page.subjects, entities);
  EXPECT_EQ(report.sizes.page.pairs, entities * entities);
}

TEST_F(Entities, FromWhichNothingCanBeLearnedAreSaid) {
  json unlinked = form();
  unlinked["links"] = json::array();
  unlinked["id"] = "q";
  const auto found = [this](const std::vector<json>& pages) {
    return checked(open(pages), link_targets(config_, true)).findings.count("nothing-to-learn");
  };
  EXPECT_EQ(found({unlinked}), 1U);
  EXPECT_EQ(found({unlinked, form()}), 0U);
}

// <s> a b c d </s>: entity i has its token in row 1 + i. Only pairs of a key and a value count.
TEST_F(Entities, BecomeTargets) {
  const Dataset data = dataset({form()});
  ASSERT_EQ(data.size(), 1U);
  const EncodedExample example = load(data, 0);
  ASSERT_EQ(example.targets.size(), kPairs + kMost * kMost);
  EXPECT_THAT(std::vector(example.targets.begin(), example.targets.begin() + kPairs),
              ElementsAre(1, 2, 3, 4, 0, 2, 2, 1));
  std::vector<std::int32_t> pairs(kMost * kMost, kIgnoredLabel);
  pairs[1] = pairs[2] = 1;  // from the key to both values
  EXPECT_EQ(std::vector(example.targets.begin() + kPairs, example.targets.end()), pairs);
  EXPECT_EQ(example.loss_terms, 2);
  EXPECT_THAT(example.predicts, ElementsAre(-1, 0, 1, 2, 3, -1));
}

// Windows of three letters that advance by two: "abc", "cde".
TEST_F(Entities, BelongToTheWindowsOfTheirFirstToken) {
  const json long_page =
      page({"ab", "c", "de"}, {entity("value", 0, 1), entity("key", 1, 2), entity("value", 2, 3)}, {{1, 0}, {1, 2}});
  const Dataset data = dataset({long_page}, true, {.max_length = 5, .stride = 1});
  ASSERT_GE(data.size(), 2U);
  const EncodedExample first = load(data, 0);
  EXPECT_EQ(first.targets[0], 1);
  EXPECT_EQ(first.targets[1], 3);
  EXPECT_EQ(first.targets[2], kIgnoredLabel);
  EXPECT_EQ(first.loss_terms, 1);
  EXPECT_EQ(first.targets[kPairs + kMost], 1);  // from the second entity to the first
}

TEST_F(Entities, AreNeededAndLimited) {
  json unlinked = form(), many = form();
  unlinked.erase("links");
  expect_error<PageError>([&] { dataset({unlinked}); }, {"a page has no links", "pages.jsonl:1"});
  const EncodedExample asked = load(dataset({unlinked}, false), 0);
  EXPECT_EQ(asked.targets[0], 1);
  EXPECT_EQ(asked.loss_terms, 0);
  EXPECT_EQ(asked.targets[kPairs + 1], kIgnoredLabel);
  expect_error<PageError>([&] { dataset({{{"words", {"a"}}}}, false); }, {"a page has no entities", "pages.jsonl:1"});
  many["entities"].push_back(entity("key", 0, 2));
  expect_error<PageError>([&] { dataset({many}); }, {"too many entities", "5 entities", "at most 4", "--max-length 4"});
  EXPECT_EQ(checked(open({many}), link_targets(config_, true)).findings.count("too-many-entities"), 1U);
  EXPECT_EQ(checked(open({form()}), link_targets(config_, true)).findings.count(Severity::kError), 0U);
  json unknown = form();
  unknown["entities"][3]["label"] = "title";
  expect_error<PageError>([&] { dataset({unknown}); }, {"\"title\"", "entity 3", "key, text, value"});
}

TEST_F(Entities, AreChecked) {
  json unlinked = form(), unknown = form(), outside = form();
  unlinked.erase("links");
  unknown["entities"][3]["label"] = "title";
  outside["links"].push_back({0, 9});
  const auto pages = open({form(), unlinked, unknown, outside, {{"words", {"a"}}}});
  const CheckReport report = check_pages(*pages, {.parts = kTextAlone,
                                                  .labels_required = true,
                                                  .words_labelled = false,
                                                  .targets = link_targets(config_, true),
                                                  .tokens = pages.get()});
  for (const char* kind : {"links-missing", "label-unknown", "link-outside", "entities-missing"}) {
    EXPECT_EQ(report.findings.count(kind), 1U) << kind;
  }
}

TEST_F(Entities, SayWhichLabelsLinksJoin) {
  const auto pages = open({form()});
  const TaskConfig seen = relation_extraction_task().seen_in(*pages, {.link_labels = {{"text", "key"}}}).config;
  EXPECT_THAT(seen.labels, ElementsAre("key", "text", "value"));
  EXPECT_THAT(seen.link_labels, ElementsAre(Pair("key", "value"), Pair("text", "key")));
  expect_error<DataError>(
      [&] {
        relation_extraction_task().seen_in(*open({{{"words", {"a"}}}}), {});
      },
      {"no page has entities"});
}

// Batches of the examples, with logits that say for each pair of entities whether it is a link.
class Linked : public Entities {
 protected:
  using Found = std::function<bool(std::size_t window, std::size_t from, std::size_t to)>;

  void feed(WindowReader& reader, const Dataset& data, const Found& found) const {
    const auto samples = static_cast<std::int64_t>(data.size());
    const std::int64_t slots = samples * kMost;
    const auto target = [](const char* name, std::int64_t count, Shape shape, TargetForm::Kind kind) {
      return InputSpec{
          .name = name, .type = {DType::kI32, {count}}, .target = {.names = {name}, .shape = shape, .kind = kind}};
    };
    Batch batch({.max_samples = samples,
                 .max_text_rows = 100,
                 .inputs = {{.name = "sample_offsets", .type = {DType::kI32, {samples + 1}}},
                            target("entity_tokens", slots, {kMost}, TargetForm::Kind::kRow),
                            target("entity_labels", slots, {kMost}, TargetForm::Kind::kIndex),
                            target("link_labels", slots * kMost, {kMost, kMost}, TargetForm::Kind::kValue),
                            {.name = "item_keys", .type = {DType::kI32, {slots, 2}}}}});
    batch.begin();
    std::vector<float> logits;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Example& of = data.examples()[i];
      batch.add(load(data, i), {.page = of.page, .window = of.window, .windows = of.windows},
                static_cast<std::int32_t>(7 + i));
      for (std::size_t pair = 0; pair < kMost * kMost; ++pair) {
        logits.push_back(0);
        logits.push_back(found(i, pair / kMost, pair % kMost) ? 2.0F : -2.0F);
      }
    }
    batch.finish();
    const auto keys = batch.tensor("item_keys").span<std::int32_t>();
    EXPECT_THAT(std::vector(keys.begin(), keys.begin() + kPairs), ElementsAre(7, 0, 7, 1, 7, 2, 7, 3));
    const TensorView view({DType::kF32, {slots * kMost, 2}}, reinterpret_cast<std::byte*>(logits.data()));
    reader.begin_page(0);
    for (std::int64_t i = 0; i < batch.samples(); ++i) ASSERT_TRUE(reader.add_window(batch, i, view));
    reader.end_page();
    logits[1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(PageLinks(config_).add_window(batch, 0, view));
  }
};

TEST_F(Linked, AreScored) {
  const Dataset data = dataset({form()});
  const auto scorer = link_scorer(config_, data);
  // One of two links, and pairs of other labels, which cannot be links.
  feed(*scorer, data, [](std::size_t, std::size_t from, std::size_t to) { return from != 0 || to == 2; });
  const Scores scores = scorer->scores();
  EXPECT_EQ(scores.support, 2U);
  EXPECT_DOUBLE_EQ(scores.all->precision, 1);
  EXPECT_DOUBLE_EQ(scores.all->recall, 0.5);
  EXPECT_DOUBLE_EQ(scores.metrics.at(0).value, 2.0 / 3);
  ASSERT_EQ(scores.labels.size(), 1U);
  EXPECT_EQ(scores.labels[0].name, "key → value");
  const std::vector<std::string> names = relation_extraction_task().metrics({});
  ASSERT_EQ(names.size(), scores.metrics.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], scores.metrics[i].name);
}

// Two entities begin at the same word and are told apart by their order; a pair that two windows see has the mean.
TEST_F(Linked, ArePutTogetherFromWindows) {
  const json overlapping =
      page({"a", "b", "c"}, {entity("key", 0, 1), entity("value", 1, 2), entity("value", 1, 3)}, {{0, 2}});
  const Dataset data = dataset({overlapping});
  const auto predictions = link_predictions(config_, {.all_scores = true});
  feed(*predictions, data, [](std::size_t, std::size_t from, std::size_t to) { return from == 0 && to == 2; });
  const json line = predictions->to_json(data.source().read(0));
  EXPECT_EQ(line.at("link_scores").size(), 2U);
  EXPECT_EQ(line.at("links"), (json{{0, 2}}));
  EXPECT_NEAR(line.at("link_probabilities")[0].get<double>(), 1 / (1 + std::exp(-2.0)), 1e-6);
}

// The same pair in two windows has the mean of its probabilities.
TEST_F(Linked, HaveTheMeanOfTheirWindows) {
  const json long_page = page({"a", "b", "c", "d"}, {entity("key", 1, 2), entity("value", 2, 3)}, {{0, 1}});
  const Dataset data = dataset({long_page}, true, {.max_length = 5, .stride = 2});
  ASSERT_EQ(data.size(), 2U);  // "abc" and "bcd"
  EXPECT_EQ(load(data, 0).targets[0], 2);
  EXPECT_EQ(load(data, 1).targets[0], 1);
  const auto predictions = link_predictions(config_, {.all_scores = true});
  feed(*predictions, data, [](std::size_t window, std::size_t, std::size_t) { return window == 0; });
  const json scores = predictions->to_json(data.source().read(0)).at("link_scores");
  ASSERT_EQ(scores.size(), 1U);
  EXPECT_NEAR(scores[0].at("probability").get<double>(), 0.5, 1e-6);
}

TEST_F(Linked, AreWritten) {
  const Dataset data = dataset({form()});
  const auto predictions = link_predictions(config_, {.all_scores = true});
  feed(*predictions, data, [](std::size_t, std::size_t, std::size_t to) { return to == 1; });
  const json line = predictions->to_json(data.source().read(0));
  EXPECT_EQ(line.at("links"), (json{{0, 1}}));
  EXPECT_EQ(line.at("link_probabilities").size(), 1U);
  EXPECT_EQ(line.at("link_scores").size(), 2U);  // a key and each of two values
  ASSERT_EQ(line.at("fields").size(), 4U);
  EXPECT_EQ(line.at("fields")[0].at("text"), "a");
  EXPECT_FALSE(line.at("fields")[0].contains("confidence"));  // it was given
  // What was written is read again.
  const Page again = open({line})->read(0);
  EXPECT_EQ(entities_of(again)->entities.size(), 4U);
  EXPECT_THAT(entities_of(again)->links, ElementsAre(Pair(0, 1)));
}

}  // namespace
}  // namespace plimsoll::test
