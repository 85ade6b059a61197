// Texts for language models: what a page may have, which tokens are learned, windows that cut anywhere, scores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "families/model_config.h"
#include "support/expect_error.h"
#include "tasks/causal_lm/results.h"
#include "tasks/causal_lm/task.h"
#include "tasks/causal_lm/text.h"
#include "tasks/task_pages.h"
#include "tasks/tasks.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// Each byte of a word is a token; a text begins with 1 and ends with 2.
WordEncoder bytes_of_texts() {
  return {.encode = {},
          .encode_text =
              [](std::span<const std::string> parts, std::vector<std::int32_t>& ids,
                 std::vector<std::int32_t>& parts_of_ids) {
                for (std::size_t part = 0; part < parts.size(); ++part) {
                  ids.insert(ids.end(), parts[part].begin(), parts[part].end());
                  parts_of_ids.insert(parts_of_ids.end(), parts[part].size(), static_cast<std::int32_t>(part));
                }
              },
          .bos_id = -1,
          .pad_id = 0,
          .eos_id = -1,
          .text_begin_id = 1,
          .text_end_id = 2};
}

class Texts : public testing::Test {
 protected:
  std::shared_ptr<const TokenizedPages> open(const std::vector<json>& pages) const {
    std::string lines;
    for (const json& page : pages) lines += page.dump() + "\n";
    const ReadOptions reading{.parts = kTextAlone, .ignore_labels = true, .target = &text_reader()};
    return std::make_shared<TokenizedPages>(open_pages(folder_.write("texts.jsonl", lines), reading), bytes_of_texts(),
                                            reading);
  }
  Dataset dataset(const std::vector<json>& pages, int length = 16) const {
    return Dataset(open(pages), ImageProcessor({}),
                   {.parts = kTextAlone,
                    .windows = {.max_length = length, .stride = 0, .outer = 0},
                    .targets = next_token_targets()});
  }
  static EncodedExample load(const Dataset& data, std::size_t index) {
    Dataset::Scratch scratch;
    EncodedExample example;
    data.load(index, scratch, example);
    return example;
  }
  PageError fault(const json& page) const {
    try {
      open({page})->read(0);
    } catch (const PageError& error) {
      return error;
    }
    return PageError("none", {});
  }

 private:
  ScratchFolder folder_;
};

TEST_F(Texts, EveryTokenOfAWholeTextIsLearned) {
  const Dataset data = dataset({{{"text", "ab"}}});
  ASSERT_EQ(data.size(), 1);
  const EncodedExample example = load(data, 0);
  EXPECT_THAT(example.input_ids, ElementsAre(1, 'a', 'b', 2));
  EXPECT_THAT(example.labels, ElementsAre('a', 'b', 2, -100));
  EXPECT_EQ(example.loss_terms, 3);
}

TEST_F(Texts, WindowsOfAPromptAloneAreLeftOut) {
  const Dataset data =
      dataset({{{"prompt", std::string(40, 'a')}, {"completion", "de"}}, {{"text", std::string(20, 'b')}}});
  // 1, 40 x a, d, e, 2 are three windows of 16, of which the last has something to learn; then 22 tokens.
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(load(data, 0).loss_terms, 3);
  EXPECT_EQ(load(data, 1).loss_terms, 15);
  const auto pages = open({{{"prompt", std::string(40, 'a')}, {"completion", "de"}}, {{"text", std::string(20, 'b')}}});
  const CheckReport report = check_pages(*pages, {.parts = kTextAlone,
                                                  .labels_required = true,
                                                  .words_labelled = false,
                                                  .targets = next_token_targets(),
                                                  .tokens = pages.get(),
                                                  .windows = {.max_length = 16, .stride = 0, .outer = 0}});
  EXPECT_EQ(report.windows, 3U);
  EXPECT_EQ(report.findings.count("prompt-cut"), 1U);
}

TEST_F(Texts, ALabelThatIsNotLearntIsSaid) {
  const auto pages = open({{{"text", "ab"}, {"label", "x"}}, {{"text", "cd"}}});
  const CheckReport report = check_pages(
      *pages, {.parts = kTextAlone, .words_labelled = false, .targets = next_token_targets(), .tokens = pages.get()});
  EXPECT_EQ(report.findings.count("label-not-read"), 1U);
}

TEST_F(Texts, ARoleThatIsMisspeltIsSaid) {
  Page page;
  page.words = {"a"};
  const auto check = [&page](const json& line) {
    page.target = text_reader().read(line, page, nullptr);
    Findings findings;
    std::map<std::string, std::uint64_t> labels;
    next_token_targets()->check(page, true, findings, labels);
    return findings;
  };
  const auto said = [](const char* role) { return json{{"role", role}, {"content", "a"}}; };
  const Findings odd = check({{"messages", {said("user"), said("asistant")}}});
  ASSERT_EQ(odd.count("role-unknown"), 1U);
  EXPECT_EQ(odd.sorted().front().first.remedy, "did you mean \"assistant\"?");
  EXPECT_EQ(check({{"prompt", {said("usr")}}, {"completion", {said("assistant")}}}).count("role-unknown"), 1U);
  EXPECT_EQ(check({{"messages", {said("system"), said("user"), said("assistant")}}}).count("role-unknown"), 0U);
}

TEST_F(Texts, OfPromptsCompletionsAreLearned) {
  const EncodedExample example = load(dataset({{{"prompt", "abc"}, {"completion", "de"}}}), 0);
  EXPECT_THAT(example.input_ids, ElementsAre(1, 'a', 'b', 'c', 'd', 'e', 2));
  EXPECT_THAT(example.labels, ElementsAre(-100, -100, -100, 'd', 'e', 2, -100));
  EXPECT_EQ(example.loss_terms, 3);
}

TEST_F(Texts, WhatWindowsShareIsLearntOnce) {
  const Dataset data(
      open({{{"text", "abcdefghij"}}}), ImageProcessor({}),
      {.parts = kTextAlone, .windows = {.max_length = 6, .stride = 2, .outer = 0}, .targets = next_token_targets()});
  // 1 a b c d e, d e f g h i, h i j 2
  ASSERT_EQ(data.size(), 3);
  EXPECT_THAT(load(data, 0).labels, ElementsAre('a', 'b', 'c', 'd', 'e', -100));
  EXPECT_THAT(load(data, 1).labels, ElementsAre(-100, 'f', 'g', 'h', 'i', -100));
  EXPECT_THAT(load(data, 2).labels, ElementsAre(-100, 'j', 2, -100));
}

TEST_F(Texts, WindowsCutThemAnywhere) {
  const Dataset data = dataset({{{"prompt", "ab"}, {"completion", "cdefgh"}}, {{"text", "x"}}}, 4);
  ASSERT_EQ(data.size(), 4);
  EXPECT_THAT(load(data, 0).input_ids, ElementsAre(1, 'a', 'b', 'c'));
  EXPECT_THAT(load(data, 0).labels, ElementsAre(-100, -100, 'c', -100));
  EXPECT_THAT(load(data, 1).input_ids, ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_THAT(load(data, 1).labels, ElementsAre('e', 'f', 'g', -100));
  EXPECT_THAT(load(data, 2).input_ids, ElementsAre('h', 2));
  EXPECT_THAT(load(data, 3).input_ids, ElementsAre(1, 'x', 2));
}

TEST_F(Texts, FaultsAreNamed) {
  EXPECT_EQ(fault({{"words", {"a"}}}).kind(), "text-missing");
  EXPECT_EQ(fault({{"prompt", "a"}}).kind(), "text-missing");
  EXPECT_THAT(fault({{"prompt", "a"}, {"chosen", "b"}, {"rejected", "c"}}).problem().remedy,
              testing::HasSubstr("--task pair-ranking"));
  EXPECT_THAT(fault({{"conversations", json::array()}}).problem().remedy, testing::HasSubstr("`messages`"));
  EXPECT_THAT(fault({{"instruction", "a"}, {"output", "b"}}).problem().found, testing::HasSubstr("Alpaca"));
  EXPECT_EQ(fault({{"text", "a"}, {"completion", "b"}}).kind(), "text-twice");
  const json messages = {{{"role", "user"}, {"content", "a"}}};
  EXPECT_EQ(fault({{"messages", messages}, {"completion", "b"}}).kind(), "text-twice");
  EXPECT_EQ(fault({{"messages", messages}, {"prompt", messages}}).kind(), "text-twice");
  EXPECT_EQ(fault({{"messages", messages}, {"prompt", "a"}}).kind(), "no-chat-template");  // the prompt is passed over
  EXPECT_EQ(fault({{"text", 3}}).kind(), "wrong-type");
  EXPECT_EQ(fault({{"text", ""}}).kind(), "text-empty");
  EXPECT_EQ(fault({{"prompt", ""}, {"completion", "b"}}).kind(), "none");
}

// Perplexity is of the plain loss: scores do not know of smoothing.
TEST(CausalLanguageModel, SmoothsItsLoss) {
  const json keys = {{"model_type", "gpt2"}, {"vocab_size", 10}, {"n_embd", 8},
                     {"n_layer", 1},         {"n_head", 2},      {"n_positions", 16}};
  TaskConfig config;
  config.loss.label_smoothing = 0.1;
  EXPECT_TRUE(causal_lm_task().has_classes(config));
  EXPECT_FALSE(causal_lm_task().weighs_classes(config));
  const ModelGraph model = causal_lm_task()
                               .model(parse_config(keys, "config.json").encoder, config)
                               .build({.samples = 1, .text_rows = 8}, false, {}, DType::kF32);
  const Node& loss = model.graph.node(model.graph.value(model.loss).producer);
  EXPECT_EQ(std::get<CrossEntropyAttributes>(loss.attributes), CrossEntropyAttributes{.label_smoothing = 0.1});
  EXPECT_EQ(model.graph.node(model.graph.value(model.logits).producer).op, Op::kLabelScores);
}

TEST_F(Texts, TaskIsFoundByItsNames) {
  EXPECT_EQ(&task_named("causal-lm"), &causal_lm_task());
  EXPECT_EQ(&task_named("CausalLM"), &causal_lm_task());
  EXPECT_TRUE(causal_lm_task().reads_text());
  EXPECT_THAT(causal_lm_task().metrics({}), ElementsAre("perplexity", "accuracy"));
}

}  // namespace
}  // namespace plimsoll::test
