// What `predict` makes of pages that other programs would stumble over, and of its own output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Predict : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }

  Outcome predict(const std::string& model, const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"predict",  "--model", path(model), "--data", path(data), "--output", path("found/out.jsonl"),
                     "--budget", "1GiB",    "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    fs::create_directories(at("found"));
    return run(all);
  }
  std::vector<json> lines() const {
    std::vector<json> all;
    std::ifstream file(at("found/out.jsonl"));
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
    return all;
  }
  void train_for(const std::string& task, const std::string& output) const {
    const Outcome trained = run(train_arguments(output, {"--task", task, "--max-steps", "1"}));
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
};

// The image is named as a reader of the output finds it, wherever that lies.
TEST_F(Predict, ItsLinesArePagesAgain) {
  make_model();
  ASSERT_EQ(predict("model", "pages/validation.jsonl").code, 0);
  const std::vector<json> found = lines();
  ASSERT_FALSE(found.empty());
  for (const json& line : found) {
    const fs::path image = line.at("image").get<std::string>();
    EXPECT_TRUE(image.is_absolute() || fs::exists(at("found") / image)) << image;
  }
  const Arguments all = {"predict",  "--model",           path("model"), "--data", path("found/out.jsonl"),
                         "--output", path("again.jsonl"), "--threads",   "1"};
  const Outcome outcome = run(all);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Predict, CtrlCLeavesNoHalfFile) {
  make_model();
  std::vector<json> pages;
  while (pages.size() < 400) {
    for (const json& page : read_pages("validation.jsonl")) pages.push_back(page);
  }
  write_pages("many.jsonl", pages);
  fs::create_directories(at("found"));
  Process process({"predict", "--model", path("model"), "--data", path("pages/many.jsonl"), "--output",
                   path("found/out.jsonl"), "--draw", path("found/drawn"), "--threads", "1"},
                  at("predict"));
  const auto is_drawing = [&] { return fs::exists(at("found/drawn")) && !fs::is_empty(at("found/drawn")); };
  while (!is_drawing()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(at("found/out.jsonl")));
  for (const auto& entry : fs::recursive_directory_iterator(at("found"))) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

// Words that a model labels B-KEY belong to what a model of links calls "key".
TEST_F(Predict, WordsBecomeEntitiesToBeLinked) {
  std::vector<json> pages = read_pages("train.jsonl");
  for (json& page : pages) {
    page["entities"] = {{{"label", "date"}, {"start_word", 0}, {"end_word", 1}},
                        {{"label", "total"}, {"start_word", 1}, {"end_word", 3}}};
    page["links"] = json::array({{0, 1}});
  }
  write_pages("train.jsonl", pages);
  train_for("relation-extraction", "links");
  std::vector<json> labelled = read_pages("validation.jsonl");
  for (json& page : labelled) {
    page["labels"] = json::array();
    for (std::size_t word = 0; word < page.at("words").size(); ++word) {
      page["labels"].push_back(word == 0 ? "B-DATE" : word < 3 ? "B-TOTAL" : "O");
    }
  }
  write_pages("labelled.jsonl", labelled);
  const Outcome outcome = predict("links", "pages/labelled.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines().at(0).at("fields").size(), 3U);
  labelled[0]["labels"][0] = "B-STAMP";
  write_pages("labelled.jsonl", labelled);
  EXPECT_THAT(predict("links", "pages/labelled.jsonl").err, HasSubstr("STAMP"));
}

TEST_F(Predict, EveryPageHasALine) {
  std::vector<json> pages = read_pages("train.jsonl");
  for (json& page : pages)
    page["questions"] = {{{"question", "What?"}, {"answers", {{{"start_word", 0}, {"end_word", 1}}}}}};
  write_pages("train.jsonl", pages);
  train_for("question-answering", "answers");
  pages[0]["questions"] = json::array();
  pages[2]["questions"] = json::array();
  pages[1]["words"] = pages[1]["boxes"] = pages[1]["labels"] = json::array();
  pages[1]["questions"][0].erase("answers");
  write_pages("odd.jsonl", pages);
  const Outcome outcome = predict("answers", "pages/odd.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> found = lines();
  ASSERT_EQ(found.size(), pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(found[i].at("id"), pages[i].at("id"));
    EXPECT_EQ(found[i].at("questions").size(), pages[i].at("questions").size());
  }
  EXPECT_EQ(found[1].at("questions")[0].at("answers")[0].at("text"), "");
  // What was found is a page again, "no answer" included.
  fs::rename(at("found/out.jsonl"), at("found/in.jsonl"));
  const Outcome again = predict("answers", "found/in.jsonl");
  EXPECT_EQ(again.code, 0) << again.err << file_bytes(at("found/in.jsonl"));
  EXPECT_EQ(lines().size(), pages.size());
}

TEST_F(Predict, OptionsOnDocumentsNeedDocuments) {
  draw_pages();
  make_model();
  const Arguments plain = {"predict",  "--model",        path("model"), "--data", path("pages/validation.jsonl"),
                           "--output", path("out.jsonl")};
  Arguments idle = plain, usual = plain;
  idle.insert(idle.end(), {"--language", "deu", "--keep-rotation", "--dpi", "200"});
  usual.insert(usual.end(), {"--language", "eng", "--dpi", "300"});
  const Outcome told = run(idle);
  EXPECT_EQ(told.code, 0) << told.err;
  for (const char* option : {"--language", "--keep-rotation", "--dpi"}) {
    EXPECT_THAT(told.err, testing::HasSubstr(std::string(option) + " changes nothing without --input"));
  }
  EXPECT_THAT(run(usual).err, testing::Not(testing::HasSubstr("changes nothing")));
}

TEST_F(Predict, ABadPageCostsThatPageAlone) {
  make_model();
  std::vector<json> pages = read_pages("train.jsonl");
  pages[0]["image"] = "nowhere.png";
  pages[2]["boxes"][0] = {1, 2, 3};
  write_pages("bad.jsonl", pages);
  const Outcome outcome = predict("model", "pages/bad.jsonl", {"--json"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, testing::AllOf(HasSubstr("2 pages could not be read"), HasSubstr("nowhere.png"),
                                          HasSubstr("bad.jsonl:3")));
  EXPECT_EQ(json::parse(outcome.out).at("skipped_pages").size(), 2U);
  const std::vector<json> found = lines();
  ASSERT_EQ(found.size(), pages.size() - 2);
  EXPECT_EQ(found[0].at("id"), pages[1].at("id"));
  const Outcome cached = predict("model", "pages/bad.jsonl", {"--cache", path("cache")});
  EXPECT_EQ(cached.code, 3) << cached.err;
  EXPECT_EQ(lines(), found);
  for (json& page : pages) page["image"] = "nowhere.png";
  write_pages("bad.jsonl", pages);
  expect_message(predict("model", "pages/bad.jsonl"), 3, {"nowhere.png"});
}

// The number of a page is its place in the document, whichever pages before it could be read.
TEST_F(Predict, APageThatCannotBeReadLeavesTheNumbersOfOthersAlone) {
  make_model();
  std::vector<json> pages = read_pages("train.jsonl");
  ASSERT_GE(pages.size(), 4U);
  pages.resize(4);
  for (std::size_t i = 0; i < 3; ++i) pages[i]["document"] = "contract";
  pages[1]["image"] = "nowhere.png";
  write_pages("bad.jsonl", pages);
  EXPECT_EQ(predict("model", "pages/bad.jsonl").code, 3);
  const std::vector<json> found = lines();
  ASSERT_EQ(found.size(), 2U);
  const json& document = found[0];
  ASSERT_EQ(document.at("pages").size(), 3U);
  EXPECT_TRUE(document["pages"][1].is_null());
  EXPECT_EQ(document["pages"][2].at("id"), pages[2].at("id"));
  EXPECT_EQ(found[1].at("id"), pages[3].at("id"));
  for (const json& field : document.at("fields")) {
    const json& page = document["pages"].at(field.at("page").get<std::size_t>());
    json alone = field;
    alone.erase("page");
    EXPECT_THAT(page.at("fields"), testing::Contains(alone));
  }
  const Outcome table =
      run({"predict", "--model", path("model"), "--data", path("pages/bad.jsonl"), "--format", "csv"});
  const std::string last = "contract," + pages[2].at("id").get<std::string>() + ",";
  EXPECT_THAT(table.out, testing::AnyOf(HasSubstr(last + "3,"), testing::Not(HasSubstr(last))));
  // `convert` reads the document, and leaves out the pages that are missing.
  EXPECT_EQ(run({"convert", "--input", path("found/out.jsonl"), "--output", path("again.jsonl")}).code, 0);
}

// The same where pages are drawn, which needs all of their pictures.
TEST_F(Predict, APageThatCannotBeDrawnCostsThatPageAlone) {
  make_model();
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[1]["image"] = "images/absent.png";
  pages[2]["id"] = "forged\nwarning: \x1B[31mall is lost";
  pages[2]["image"] = "images/absent.png";
  pages[3]["labels"] = {"O"};  // a fault that keeps the page from being drawn, though not from being predicted
  write_pages("train.jsonl", pages);
  const Outcome outcome = run({"predict", "--model", path("model"), "--data", path("pages/train.jsonl"), "--output",
                               path("out.jsonl"), "--draw", path("drawn"), "--threads", "1"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("a page is not drawn: " + path("pages/train.jsonl:4")));
  EXPECT_EQ(outcome.err.find("\nwarning: \x1B"), std::string::npos) << "a page's id is no line of the log";
  EXPECT_THAT(outcome.err, testing::HasSubstr("forged\\x0awarning"));
  std::size_t drawn = 0;
  for (const auto& entry : fs::directory_iterator(at("drawn"))) drawn += entry.path().extension() == ".png" ? 1 : 0;
  EXPECT_EQ(drawn, pages.size() - 3);
}

TEST_F(Predict, AHeadHasTheOutputsOfItsTask) {
  const auto init = [this](const Arguments& more) {
    Arguments all = {"init", "--model", "layoutlmv3-tiny", "--output-dir", path("model")};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Arguments numbers = {"--task", "sequence-classification", "--problem-type", "regression"};
  expect_message(init({"--task", "question-answering", "--labels", "X,Y,Z"}), 2, {"--labels", "3 labels"});
  expect_message(init({"--task", "sequence-classification", "--problem-type", "regression", "--labels", "a,b"}), 2,
                 {"--labels", "2 labels", "regression"});
  EXPECT_EQ(init(numbers).code, 0);
  std::vector<json> pages = read_pages("train.jsonl");
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i]["label"] = 0.5 * static_cast<double>(i);
  write_pages("train.jsonl", pages);
  for (const char* command : {"train", "plan"}) {
    Arguments all = train_arguments("run", {"--task", "sequence-classification", "--labels", "a,b"});
    all[0] = command;
    expect_message(run(all), 2, {"--labels", "2 labels", "single_label_classification"});
  }
}

// Text alone goes to a model without boxes: its tokenizer's class takes text.
TEST_F(Predict, NewModelsNameATokenizerThatTransformersCanCall) {
  for (const auto& [preset, name] : {std::pair("roberta-tiny", "RobertaTokenizer"),
                                     {"layoutlmv3-tiny", "LayoutLMv3Tokenizer"},
                                     {"lilt-tiny", "LayoutLMv3Tokenizer"}}) {
    const Outcome outcome = run({"init", "--model", preset, "--output-dir", path(preset)});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json config = json::parse(file_bytes(at(std::string(preset) + "/tokenizer_config.json")));
    EXPECT_EQ(config.at("tokenizer_class"), name);
    EXPECT_EQ(config.contains("cls_token_box"), std::string(name) == "LayoutLMv3Tokenizer");
  }
}

}  // namespace
}  // namespace plimsoll::test
