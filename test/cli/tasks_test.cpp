// Tasks other than labels of words, through the whole program: check, train, resume, eval, predict, adapters, wrong
// data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

class Tasks : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }

  // Gives each page of both files what `target` makes of it.
  void retarget(const std::function<void(json& page, std::size_t index)>& target) const {
    for (const char* name : {"train.jsonl", "validation.jsonl"}) {
      std::vector<json> pages = read_pages(name);
      for (std::size_t i = 0; i < pages.size(); ++i) {
        pages[i].erase("labels");
        target(pages[i], i);
      }
      write_pages(name, pages);
    }
  }
  Arguments train(const std::string& task, const Arguments& more = {}) const {
    Arguments all = train_arguments("run", {"--task", task, "--eval-data", path("pages/validation.jsonl")});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json evaluated(const std::string& model) const {
    Arguments all = eval_arguments();
    *(std::find(all.begin(), all.end(), "--model") + 1) = path(model);
    all.emplace_back("--json");
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::vector<json> predicted(const std::string& model, const Arguments& more = {}) const {
    Arguments all = {"predict",  "--model",         path(model), "--data", path("pages/validation.jsonl"),
                     "--output", path("out.jsonl"), "--budget",  "1GiB",   "--threads",
                     "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<json> lines;
    std::ifstream file(at("out.jsonl"));
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(Tasks, ClassesOfPages) {
  retarget([](json& page, std::size_t i) { page["label"] = i % 2 == 0 ? "even" : "odd"; });
  const Outcome trained = run(train("sequence-classification", {"--max-steps", "2", "--load-best-model-at-end"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, testing::HasSubstr("accuracy"));
  const json config = json::parse(file_bytes(at("run/config.json")));
  EXPECT_EQ(config.at("architectures"), json::array({"LayoutLMv3ForSequenceClassification"}));
  EXPECT_EQ(config.at("problem_type"), "single_label_classification");
  EXPECT_EQ(config.at("id2label"), (json{{"0", "even"}, {"1", "odd"}}));
  const json scores = evaluated("run");
  for (const char* key : {"accuracy", "f1_macro", "f1_micro", "loss", "per_label"})
    EXPECT_TRUE(scores.contains(key)) << key;
  const std::vector<json> lines = predicted("run", {"--draw", path("drawn"), "--return-all-scores"});
  ASSERT_EQ(lines.size(), read_pages("validation.jsonl").size());
  EXPECT_TRUE(lines[0].at("label") == "even" || lines[0].at("label") == "odd");
  EXPECT_EQ(lines[0].at("scores").size(), 2U);
  EXPECT_FALSE(fs::is_empty(at("drawn")));
  // The model is one for pages now: without --task too.
  Arguments again = train_arguments("again", {"--max-steps", "1"});
  *(std::find(again.begin(), again.end(), "--model") + 1) = path("run");
  const Outcome outcome = run(again);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("new ")));
  // Its head is of no use for words.
  again.insert(again.end(), {"--task", "token-classification", "--overwrite-output-dir"});
  expect_message(run(again), 3, {"no page has labels"});
}

// A scan without words has a class like any other, by its picture; a model that sees no picture has nothing to go by.
TEST_F(Tasks, ABlankPageHasAClass) {
  retarget([](json& page, std::size_t i) {
    page["label"] = i == 0 ? "blank" : "receipt";
    if (i == 0) page["words"] = page["boxes"] = json::array();
  });
  const Outcome trained = run(train("sequence-classification", {"--max-steps", "2"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(evaluated("run").at("per_label").at("blank").at("support"), 1);
  EXPECT_EQ(predicted("run").size(), read_pages("validation.jsonl").size());
  Arguments blind = train("sequence-classification", {"--max-steps", "2", "--overwrite-output-dir"});
  *(std::ranges::find(blind, "--model") + 1) = "layoutlm-tiny";
  expect_message(run(blind), 3, {"a page has no words"});
}

// A text is tokenised whole, as `transformers` does it, not word by word.
TEST_F(Tasks, ClassesOfTexts) {
  for (const char* name : {"train.jsonl", "validation.jsonl"}) {
    std::vector<json> texts;
    for (int i = 0; i < 8; ++i) {
      texts.push_back({{"text", "A receipt, number " + std::to_string(i)}, {"label", i % 2 == 0 ? "even" : "odd"}});
    }
    write_pages(name, texts);
  }
  const auto with_model = [](Arguments all, const std::string& model) {
    *(std::ranges::find(all, "--model") + 1) = model;
    return all;
  };
  for (const std::string model : {"llama-tiny", "roberta-tiny"}) {
    const Outcome trained =
        run(with_model(train("sequence-classification", {"--max-steps", "2", "--overwrite-output-dir"}), model));
    ASSERT_EQ(trained.code, 0) << trained.err;
    const Outcome checked = run({"check", "--model", path("run"), "--data", path("pages/train.jsonl")});
    EXPECT_THAT(checked.out, testing::ContainsRegex("8 texts, [0-9]+ tokens, 8 labelled pages, 8 windows"));
    EXPECT_EQ(evaluated("run").at("support"), 8);
    const json line = predicted("run").at(3);
    EXPECT_EQ(line.at("text"), "A receipt, number 3");
    EXPECT_FALSE(line.contains("words"));
    EXPECT_FALSE(line.at("fields").at(0).contains("start_word"));
  }
  // Both files hold the same texts.
  const Outcome both = run({"check", "--model", path("run"), "--data", path("pages/train.jsonl"), "--eval-data",
                            path("pages/validation.jsonl")});
  EXPECT_THAT(both.out, testing::HasSubstr("a text is in both the training and the evaluation data (8 times)"));
  expect_message(run({"check", "--model", "roberta-tiny", "--task", "causal-lm", "--data", path("pages/train.jsonl")}),
                 2, {"predicts the next token"});
  const std::vector<std::string> named = {"a `text` and no words", "train.jsonl:1", "--task sequence-classification",
                                          "split the text"};
  expect_message(run(with_model(train("token-classification", {"--overwrite-output-dir"}), "roberta-tiny")), 3, named);
}

TEST_F(Tasks, CheckCountsWhatATaskReads) {
  const auto check = [this](const std::string& task, const Arguments& more = {}) {
    Arguments all = {"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--task", task};
    all.insert(all.end(), more.begin(), more.end());
    return run(all).out;
  };
  retarget([](json& page, std::size_t i) {
    if (i > 0) page["label"] = i % 2 == 0 ? "even" : "odd";
    page["questions"] = {{{"question", "how much?"}, {"answers", json::array()}},
                         {{"question", "when?"}, {"answers", json::array()}}};
  });
  const std::size_t pages = read_pages("train.jsonl").size();
  EXPECT_THAT(check("sequence-classification"),
              testing::HasSubstr(", " + std::to_string(pages - 1) + " labelled pages, "));
  EXPECT_THAT(check("question-answering"), testing::HasSubstr(", " + std::to_string(2 * pages) + " questions, "));
  EXPECT_EQ(json::parse(check("question-answering", {"--json"})).at("questions"), 2 * pages);
}

// Faults of one page neither hide those of others nor make their labels unknown.
TEST_F(Tasks, CheckFindsEveryFaultAtOnce) {
  const auto kinds = [this](const std::string& task, const std::vector<json>& targets) {
    std::vector<json> pages;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      pages.push_back(read_pages("train.jsonl")[0]);
      pages.back().erase("labels");
      pages.back()["words"][0] = "page " + std::to_string(i);
      pages.back()["id"] = i;
      pages.back().update(targets[i]);
    }
    write_pages("faults.jsonl", pages);
    const json report = json::parse(
        run({"check", "--model", "layoutlmv3-tiny", "--data", path("pages/faults.jsonl"), "--task", task, "--json"})
            .out);
    std::map<std::string, int> found;
    for (const json& finding : report.at("findings")) {
      if (finding.at("severity") != "info") found[finding.at("kind")] += finding.at("count").get<int>();
    }
    return found;
  };
  using Kinds = std::map<std::string, int>;
  const auto label = [](const json& value) { return json{{"label", value}}; };
  EXPECT_EQ(kinds("sequence-classification", {label("other"), label({"a", "b"}), json::object(), label(2.5),
                                              label({{"x", 1}}), label("other"), label("one")}),
            (Kinds{{"label-kind", 2}, {"label-missing", 1}, {"wrong-type", 1}}));
  const json entities = {{{"label", "key"}, {"start_word", 0}, {"end_word", 1}},
                         {{"label", "value"}, {"start_word", 1}, {"end_word", 2}}};
  const auto linked = [&](const json& links) { return json{{"entities", entities}, {"links", links}}; };
  EXPECT_EQ(kinds("relation-extraction", {linked({{0, 1}}), linked({{0, 999}}), linked({{0, 0}})}),
            (Kinds{{"link-outside", 2}}));
  // No entity can be read: no label is unknown.
  EXPECT_EQ(kinds("relation-extraction", {{{"entities", "none"}, {"links", json::array()}}}),
            (Kinds{{"wrong-type", 1}}));
}

TEST_F(Tasks, DataOfAnotherTaskNameIt) {
  const auto expect_advice = [this](const std::string& advice) {
    const std::string data = path("pages/train.jsonl");
    EXPECT_THAT(run({"check", "--model", "layoutlmv3-tiny", "--data", data}).out, testing::HasSubstr(advice));
    expect_message(run(train_arguments("none", {"--max-steps", "1"})), 3, {"no page has labels", advice});
    expect_message(run({"plan", "--model", "layoutlmv3-tiny", "--data", data}), 3, {"no page has labels", advice});
  };
  retarget([](json& page, std::size_t) { page["label"] = "a"; });
  expect_advice("pass --task sequence-classification (to check, plan or train), which reads the page's `label`");
  retarget([](json& page, std::size_t) {
    page.erase("label");
    page["questions"] = json::array();
  });
  expect_advice("pass --task question-answering (to check, plan or train), which reads the page's `questions`");
  retarget([](json& page, std::size_t) {
    page.erase("questions");
    page["entities"] = page["links"] = json::array();
  });
  expect_advice("pass --task relation-extraction (to check, plan or train), which reads the page's `entities`");
}

TEST_F(Tasks, NamesOfPipelinesAreUnderstood) {
  for (const auto& [name, meant] :
       std::map<std::string, std::string>{{"text-classification", "sequence-classification"},
                                          {"text-generation", "causal-lm"},
                                          {"ner", "token-classification"}}) {
    expect_message(run(train(name)), 2, {"no such task", "did you mean " + meant + "?"});
  }
}

TEST_F(Tasks, WholeNumbersAreSaidToBeRegression) {
  retarget([](json& page, std::size_t i) { page["label"] = i % 3; });
  const std::string said = "labels are whole numbers 0 to 2: taken as regression";
  const Outcome checked = run({"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--task",
                               "sequence-classification"});
  EXPECT_EQ(checked.code, 0);
  EXPECT_THAT(checked.out, testing::HasSubstr("warning [labels-whole] " + said));
  const Outcome trained = run(train("sequence-classification", {"--max-steps", "1"}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, testing::HasSubstr(said));
}

// The data says what is trained; a model of one label without a problem type predicts a number, as in transformers.
TEST_F(Tasks, AHeadOfOneKindIsReplacedByOneOfAnother) {
  const auto made = [&](const std::string& name, const Arguments& more) {
    Arguments all = {"init",         "--model", "roberta-tiny", "--task", "sequence-classification",
                     "--output-dir", path(name)};
    all.insert(all.end(), more.begin(), more.end());
    ASSERT_EQ(run(all).code, 0);
  };
  made("classes", {"--labels", "A,B,C"});
  made("number", {});
  std::vector<json> numbers, names;
  for (int i = 0; i < 6; ++i) {
    const std::string text = "the total is " + std::to_string(i);
    numbers.push_back({{"text", text}, {"label", i + 0.5}});
    names.push_back({{"text", text}, {"label", i % 2 == 0 ? "A" : "B"}});
  }
  write_pages("numbers.jsonl", numbers);
  write_pages("names.jsonl", names);
  const auto trained = [&](const std::string& model, const std::string& data) {
    const Outcome outcome = run({"train", "--model", path(model), "--data", path("pages/" + data), "--output-dir",
                                 path(model + "-" + data), "--max-steps", "1", "--budget", "1GiB", "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err + outcome.out;
  };
  EXPECT_THAT(trained("classes", "numbers.jsonl"), testing::HasSubstr("1 label (LABEL_0) replaces the model's 3"));
  EXPECT_THAT(trained("number", "names.jsonl"), testing::HasSubstr("2 labels (A, B) replaces the model's 1"));
  EXPECT_THAT(trained("number", "numbers.jsonl"), testing::Not(testing::HasSubstr("new classification head")));
  // Numbers have no names, whatever the model calls its one label.
  json config = json::parse(file_bytes(at("number/config.json")));
  config["id2label"] = {{"0", "score"}};
  config["label2id"] = {{"score", 0}};
  fs::remove(at("number/checksums.json"));
  write_bytes(at("number/config.json"), config.dump());
  fs::remove_all(at("number-numbers.jsonl"));
  EXPECT_THAT(trained("number", "numbers.jsonl"), testing::Not(testing::HasSubstr("new classification head")));
  const Outcome predicted = run({"predict", "--model", path("number"), "--data", path("pages/numbers.jsonl")});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, testing::HasSubstr("\"value\":"));
}

TEST_F(Tasks, SeveralLabelsAndNumbers) {
  retarget([](json& page, std::size_t i) {
    page["label"] = i == 0 ? json::array() : i == 1 ? json::array({"a"}) : json::array({"b", "a"});
  });
  ASSERT_EQ(run(train("sequence-classification", {"--max-steps", "1"})).code, 0);
  EXPECT_EQ(json::parse(file_bytes(at("run/config.json"))).at("problem_type"), "multi_label_classification");
  EXPECT_TRUE(predicted("run")[0].at("label").is_array());
  fs::remove_all(at("run"));
  retarget([](json& page, std::size_t i) { page["label"] = 0.5 * static_cast<double>(i); });
  ASSERT_EQ(run(train("sequence-classification", {"--max-steps", "1", "--metric-for-best-model", "mae"})).code, 0);
  EXPECT_EQ(json::parse(file_bytes(at("run/config.json"))).at("problem_type"), "regression");
  EXPECT_TRUE(evaluated("run").contains("mse"));
  EXPECT_TRUE(predicted("run")[0].at("value").is_number());
}

TEST_F(Tasks, Answers) {
  retarget([](json& page, std::size_t i) {
    page["questions"] = {
        {{"id", "first"}, {"question", "What is it?"}, {"answers", {{{"start_word", 0}, {"end_word", 2}}}}},
        {{"question", "And then?"}, {"answers", json::array()}}};
    if (i == 1) page["questions"].erase(1);
  });
  const Outcome trained = run(train("question-answering", {"--max-steps", "2", "--cache", path("cache")}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(json::parse(file_bytes(at("run/config.json"))).at("architectures"),
            json::array({"LayoutLMv3ForQuestionAnswering"}));
  const json scores = evaluated("run");
  for (const char* key : {"f1", "exact_match", "anls"}) EXPECT_TRUE(scores.contains(key)) << key;
  const std::vector<json> lines = predicted("run", {"--draw", path("drawn")});
  ASSERT_EQ(lines.size(), read_pages("validation.jsonl").size());
  EXPECT_EQ(lines[0].at("questions").size(), 2U);
  EXPECT_EQ(lines[0].at("questions")[0].at("id"), "first");
  EXPECT_GE(lines[0].at("questions")[0].at("answers").size(), 1U);
}

TEST_F(Tasks, NewModelsHaveTheOutputsThatTransformersBuilds) {
  for (const auto& [task, labels] :
       std::map<std::string, std::size_t>{{"question-answering", 2}, {"sequence-classification", 1}}) {
    const Outcome outcome =
        run({"init", "--model", "layoutlmv3-tiny", "--task", task, "--output-dir", path("new-" + task)});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(json::parse(file_bytes(at("new-" + task) / "config.json")).at("id2label").size(), labels) << task;
  }
}

// Pages of one document become one line; eval shows what is taken for what, and the pages with the highest loss.
TEST_F(Tasks, DocumentsAndTheWorstPages) {
  std::vector<json> held_out = read_pages("validation.jsonl");
  const std::size_t drawn = held_out.size();
  for (std::size_t i = 0; i < drawn; ++i) held_out.push_back(held_out[i]);
  write_pages("validation.jsonl", held_out);
  retarget([](json& page, std::size_t i) {
    page["id"] = i;
    page["label"] = i % 2 == 0 ? "even" : "odd";
    if (i > 0) page["document"] = i < 3 ? json("contract") : json(7);
  });
  ASSERT_EQ(run(train("sequence-classification", {"--max-steps", "1"})).code, 0);
  const std::size_t pages = read_pages("validation.jsonl").size();
  ASSERT_GE(pages, 4U);
  const std::vector<json> lines = predicted("run");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_FALSE(lines[0].contains("document"));
  EXPECT_EQ(lines[1].at("document"), "contract");
  EXPECT_EQ(lines[1].at("pages").size(), 2U);
  EXPECT_EQ(lines[1].at("fields").at(1).at("page"), 1);
  EXPECT_EQ(lines[2].at("document"), "7");
  EXPECT_EQ(lines[2].at("pages").size(), pages - 3);

  Arguments eval = eval_arguments();
  *(std::find(eval.begin(), eval.end(), "--model") + 1) = path("run");
  eval.insert(eval.end(), {"--worst", "2", "--draw", path("worst")});
  const Outcome shown = run(eval);
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::AllOf(testing::HasSubstr("taken as"), testing::HasSubstr("calibration error"),
                                        testing::HasSubstr("pages with the highest loss"),
                                        testing::HasSubstr("validation.jsonl:")));
  std::vector<fs::directory_entry> files(fs::directory_iterator(at("worst")), {});
  EXPECT_EQ(std::ranges::count(files, ".png", [](const auto& file) { return file.path().extension(); }), 2);
  eval.emplace_back("--json");
  const json scores = json::parse(run(eval).out);
  ASSERT_EQ(scores.at("worst").size(), 2U);
  EXPECT_GE(scores.at("worst")[0].at("loss"), scores.at("worst")[1].at("loss"));
  EXPECT_EQ(scores.at("confusion").at("labels").size(), 2U);
  expect_message(run({"eval", "--model", path("run"), "--data", path("pages/validation.jsonl"), "--draw", path("x")}),
                 2, {"--draw", "--worst"});
}

TEST_F(Tasks, Links) {
  retarget([](json& page, std::size_t i) {
    page["entities"] = {{{"label", "key"}, {"start_word", 0}, {"end_word", 1}},
                        {{"label", "value"}, {"start_word", 1}, {"end_word", 3}}};
    page["links"] = i == 1 ? json::array() : json::array({{0, 1}});
  });
  const Outcome trained = run(train("relation-extraction", {"--max-steps", "2", "--cache", path("cache")}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const json config = json::parse(file_bytes(at("run/config.json")));
  EXPECT_EQ(config.at("architectures"), json::array({"LayoutLMv3ForRelationExtraction"}));
  EXPECT_EQ(config.at("link_labels"), json::array({json::array({"key", "value"})}));
  const json scores = evaluated("run");
  for (const char* key : {"f1", "precision", "recall"}) EXPECT_TRUE(scores.contains(key)) << key;
  const std::vector<json> lines = predicted("run", {"--draw", path("drawn"), "--return-all-scores"});
  ASSERT_EQ(lines.size(), read_pages("validation.jsonl").size());
  EXPECT_EQ(lines[0].at("fields").size(), 2U);
  ASSERT_EQ(lines[0].at("link_scores").size(), 1U);
  EXPECT_EQ(lines[0].at("link_scores")[0].at("to"), 1);
  EXPECT_FALSE(fs::is_empty(at("drawn")));
}

TEST_F(Tasks, ResumeBitForBit) {
  retarget([](json& page, std::size_t i) {
    page["questions"] = {{{"question", "What?"}, {"answers", {{{"start_word", i % 3}, {"end_word", i % 3 + 1}}}}}};
  });
  ASSERT_EQ(run(train("question-answering", {"--max-steps", "3"})).code, 0);
  const std::string whole = file_bytes(at("run/model.safetensors"));
  fs::remove_all(at("run"));
  ASSERT_EQ(run(train("question-answering", {"--max-steps", "3", "--save-steps", "2"})).code, 0);
  fs::remove_all(at("run/checkpoint-3"));
  for (const char* file : {"model.safetensors", "summary.json"}) fs::remove(at("run") / file);
  const Outcome resumed =
      run(train("question-answering", {"--max-steps", "3", "--save-steps", "2", "--resume-from-checkpoint", "latest"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(file_bytes(at("run/model.safetensors")), whole);
}

TEST_F(Tasks, AdaptersSayTheirs) {
  retarget([](json& page, std::size_t i) { page["label"] = i % 2 == 0 ? "even" : "odd"; });
  make_model();
  Arguments all = train("sequence-classification", {"--max-steps", "1", "--lora-rank", "2"});
  *(std::find(all.begin(), all.end(), "--model") + 1) = path("model");
  const Outcome trained = run(all);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, testing::HasSubstr("new head for sequence-classification"));
  const json config = json::parse(file_bytes(at("run/adapter_config.json")));
  EXPECT_EQ(config.at("task_type"), "SEQ_CLS");
  EXPECT_EQ(config.at("modules_to_save"), json::array({"classifier"}));
  EXPECT_THAT(file_bytes(at("run/README.md")), testing::HasSubstr("LayoutLMv3ForSequenceClassification"));
  EXPECT_TRUE(evaluated("run").contains("accuracy"));
}

TEST_F(Tasks, OptionsThatATaskLacksAreRefused) {
  expect_message(run(train("relation-extraction", {"--class-weights", "balanced"})), 2,
                 {"--class-weights", "relation-extraction", "pair-classification"});
  expect_message(run(train("pair-similarity", {"--metric-for-best-model", "loss"})), 2,
                 {"no such metric", "loss", "recall_at_1"});
}

// A similarity is learnt by comparing pairs, of which the last update of an epoch may have one alone.
TEST_F(Tasks, AnUpdateOfOnePairIsSaidToTeachNothing) {
  std::string pairs;
  const std::vector<json> pages = read_pages("train.jsonl");
  for (std::size_t i = 0; i < 3; ++i) {
    pairs += json({{"a", pages.at(i).at("id")}, {"b", pages.at(i + 1).at("id")}, {"label", 1}}).dump() + "\n";
  }
  write_bytes(at("pairs.jsonl"), pairs);
  Arguments similar = train_arguments("run", {"--task", "pair-similarity", "--pages", path("pages/train.jsonl"),
                                              "--max-steps", "2"});
  *(std::ranges::find(similar, "--data") + 1) = path("pairs.jsonl");
  const Outcome outcome = run(similar);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("one pair, which is compared with no other"));
  similar.insert(similar.end(), {"--dataloader-drop-last", "--overwrite-output-dir"});
  EXPECT_THAT(run(similar).err, testing::Not(testing::HasSubstr("one pair")));
}

// An evaluation that has no value of the metric is none by which models are compared.
TEST_F(Tasks, AMetricWithoutAValueChoosesNoModel) {
  retarget([](json& page, std::size_t) {
    page["questions"] = {{{"question", "what?"}, {"answers", {{{"start_word", 0}, {"end_word", 1}}}}}};
  });
  const Outcome outcome = run(
      train("question-answering", {"--max-steps", "3", "--eval-steps", "1", "--metric-for-best-model",
                                   "f1_without_answer", "--early-stopping-patience", "1", "--load-best-model-at-end"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("nothing that f1_without_answer measures"));
  EXPECT_EQ(json::parse(file_bytes(at("run/summary.json"))).at("steps"), 3);
  EXPECT_FALSE(evaluated("run").contains("f1_without_answer"));
}

TEST_F(Tasks, WrongDataIsNamed) {
  const auto check = [this](const std::string& task, const Arguments& more = {}) {
    Arguments all = {"check", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--task", task};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  retarget([](json& page, std::size_t i) { page["label"] = i == 1 ? json(2.5) : json("a"); });
  const Outcome mixed = check("sequence-classification");
  EXPECT_EQ(mixed.code, 3);
  EXPECT_THAT(mixed.out, testing::AllOf(testing::HasSubstr("[label-kind]"), testing::HasSubstr("train.jsonl:2")));
  expect_message(run(train("sequence-classification")), 3, {"label", "train.jsonl:2", "2.5"});
  retarget([](json& page, std::size_t i) {
    page["questions"] = {{{"question", "q"}, {"answers", {{{"start_word", 0}, {"end_word", i == 1 ? 100000 : 1}}}}}};
  });
  const Outcome outside = check("question-answering");
  EXPECT_EQ(outside.code, 3);
  EXPECT_THAT(outside.out, testing::AllOf(testing::HasSubstr("[answer-outside]"), testing::HasSubstr("100000"),
                                          testing::HasSubstr("train.jsonl:2")));
  expect_message(run(train("question-answering")), 3, {"train.jsonl:2", "100000"});
  retarget([](json& page, std::size_t i) {
    page["entities"] = {{{"label", "key"}, {"start_word", 0}, {"end_word", 1}},
                        {{"label", "value"}, {"start_word", 1}, {"end_word", i == 1 ? 100000 : 2}}};
    page["links"] = i == 2 ? json::array({{0, 7}}) : json::array({{0, 1}});
  });
  const Outcome unlinked = check("relation-extraction");
  EXPECT_EQ(unlinked.code, 3);
  EXPECT_THAT(unlinked.out, testing::AllOf(testing::HasSubstr("[entity-outside]"), testing::HasSubstr("100000"),
                                           testing::HasSubstr("[link-outside]"), testing::HasSubstr("[0,7]"),
                                           testing::HasSubstr("train.jsonl:2"), testing::HasSubstr("train.jsonl:3")));
  expect_message(run(train("relation-extraction")), 3, {"train.jsonl:2", "100000"});
  expect_message(check("question-answring"), 2, {"--task", "question-answering"});
  expect_message(check("token-classification", {"--problem-type", "regression"}), 2, {"--problem-type"});
}

}  // namespace
}  // namespace plimsoll::test
