// Invalid requests are refused with the right exit code and one message: where, what was found and what is allowed.
#include "program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;

class Refusal : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    make_model();
  }
  nlohmann::json read_json(const std::string& name) const { return nlohmann::json::parse(file_bytes(at(name))); }
};

TEST_F(Refusal, MissingWeights) {
  fs::remove(at("model/model.safetensors"));
  expect_message(run(eval_arguments()), 3, {path("model"), "model.safetensors"});
}

TEST_F(Refusal, WeightsCutOff) {
  fs::resize_file(at("model/model.safetensors"), fs::file_size(at("model/model.safetensors")) / 2);
  expect_message(run(eval_arguments()), 3, {"model.safetensors", "found:", "allowed:"});
  fs::resize_file(at("model/model.safetensors"), 5);
  expect_message(run(eval_arguments()), 3, {"model.safetensors"});
}

TEST_F(Refusal, WeightsOfAnotherShape) {
  nlohmann::json config = read_json("model/config.json");
  config["intermediate_size"] = config["intermediate_size"].get<int>() / 2;
  write_bytes(at("model/config.json"), config.dump());
  expect_message(run(eval_arguments()), 3, {"model.safetensors", "layer", "found:", "allowed:"});
}

TEST_F(Refusal, TokenizerLargerThanTheEmbedding) {
  nlohmann::json config = read_json("model/config.json");
  const int vocabulary = config["vocab_size"].get<int>();
  config["vocab_size"] = vocabulary - 7;
  write_bytes(at("model/config.json"), config.dump());
  expect_message(run(eval_arguments()), 3, {"token", std::to_string(vocabulary - 7)});
}

TEST_F(Refusal, BudgetNamesTheSmallestThatWorks) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  Arguments arguments = train_arguments("run", {"--max-steps", "2"});
  const auto budget = std::find(arguments.begin(), arguments.end(), "1GiB");
  *budget = "10MiB";
  const Outcome refused = run(arguments);
  expect_message(refused, 4, {"10.0 MiB", "allowed:", "pass --budget "});
  const std::size_t begin = refused.err.find("pass --budget ") + std::string("pass --budget ").size();
  *budget = refused.err.substr(begin, refused.err.find_first_of(", \n", begin) - begin);
  const Outcome done = run(arguments);
  EXPECT_EQ(done.code, 0) << *budget << "\n" << done.err;
}

TEST_F(Refusal, ImageThatIsMissingOrCutOff) {
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  const std::string image = pages[0]["image"].get<std::string>();
  fs::resize_file(at("pages/" + image), 200);
  expect_message(run(eval_arguments()), 3, {image});
  write_bytes(at("pages/" + image), "not an image at all");
  expect_message(run(eval_arguments()), 3, {"validation.jsonl:1", image});
  fs::remove(at("pages/" + image));
  expect_message(run(eval_arguments()), 3, {"validation.jsonl:1", image});
}

TEST_F(Refusal, JsonCutInHalf) {
  const std::string text = file_bytes(at("pages/validation.jsonl"));
  write_bytes(at("pages/cut.jsonl"), text.substr(0, text.find('\n') + 100));
  expect_message(run(eval_arguments("pages/cut.jsonl")), 3, {"cut.jsonl:2"});
}

TEST_F(Refusal, LabelThatTheModelDoesNotKnow) {
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  pages[1]["labels"][4] = "B-VAT";
  write_pages("bad.jsonl", pages);
  expect_message(run(eval_arguments("pages/bad.jsonl")), 3, {"bad.jsonl:2", "word 4", "B-VAT", "B-TOTAL"});
}

TEST_F(Refusal, BoxOutsideThePage) {
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  const char* key = pages[1].contains("boxes") ? "boxes" : "bboxes";
  pages[1][key][3] = {10, 10, 99999, 20};
  write_pages("bad.jsonl", pages);
  expect_message(run(eval_arguments("pages/bad.jsonl")), 3, {"bad.jsonl:2", "word 3", "99999", "allowed:"});
}

TEST_F(Refusal, NoPages) {
  write_bytes(at("pages/empty.jsonl"), "");
  expect_message(run(eval_arguments("pages/empty.jsonl")), 3, {"empty.jsonl"});
  expect_message(run(eval_arguments("pages/absent.jsonl")), 3, {"absent.jsonl"});
}

TEST_F(Refusal, JsonModeSaysTheSame) {
  Arguments arguments = eval_arguments("pages/absent.jsonl");
  arguments.emplace_back("--json");
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(nlohmann::json::parse(outcome.out).at("error").at("exit_code"), 3);
}

TEST_F(Refusal, WeightsThatAreNotNumbers) {
  std::string bytes = file_bytes(at("model/model.safetensors"));
  bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  write_bytes(at("model/model.safetensors"), bytes);
  fs::remove(at("model/checksums.json"));  // as in a model from elsewhere
  expect_message(run(eval_arguments()), 3, {"model.safetensors", "tensor 'classifier.bias', element 8", "nan"});
}

TEST_F(Refusal, PresetsHaveNothingToPredictWith) {
  expect_message(run({"predict", "--model", "layoutlmv3-tiny", "--data", path("pages/validation.jsonl")}), 2,
                 {"--model", "train it first"});
}

TEST_F(Refusal, OneStrayLabelDoesNotThrowTheHeadAway) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[2]["labels"][5] = "b-total";
  write_pages("stray.jsonl", pages);
  Arguments arguments = train_arguments("run", {"--max-steps", "1"});
  *std::find(arguments.begin(), arguments.end(), "layoutlmv3-tiny") = path("model");
  *std::find(arguments.begin(), arguments.end(), path("pages/train.jsonl")) = path("pages/stray.jsonl");
  expect_message(run(arguments), 3, {"stray.jsonl:3", "word 5", "b-total", "B-TOTAL", "--labels O,"});
  const Outcome checked = run({"check", "--model", path("model"), "--data", path("pages/stray.jsonl"), "--json"});
  EXPECT_EQ(checked.code, 3);
  EXPECT_EQ(nlohmann::json::parse(checked.out).at("findings").at(0).at("kind"), "label-unknown");
  // Another label set, as in data for another task, gets a new head.
  for (nlohmann::json& page : pages) {
    for (nlohmann::json& label : page["labels"]) label = label == "O" ? "O" : "B-FIELD";
  }
  write_pages("stray.jsonl", pages);
  const Outcome fresh = run(arguments);
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_THAT(fresh.err, testing::HasSubstr("new classification head"));
}

TEST_F(Refusal, NumbersAreNamedByTheModelEvenWhereAPageIsBroken) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  for (nlohmann::json& page : pages) {
    for (nlohmann::json& label : page["labels"]) label = 1;
  }
  pages[1]["boxes"].erase(0);
  write_pages("numbers.jsonl", pages);
  const Outcome checked = run({"check", "--model", path("model"), "--data", path("pages/numbers.jsonl"), "--json"});
  EXPECT_EQ(checked.code, 3);
  const nlohmann::json report = nlohmann::json::parse(checked.out);
  EXPECT_EQ(report.at("errors"), 1);
  EXPECT_EQ(report.at("findings").at(0).at("kind"), "counts-differ");
}

TEST_F(Refusal, JsonOverSeveralLines) {
  write_bytes(at("pages/pretty.jsonl"), read_pages("train.jsonl")[0].dump(1));
  expect_message(run(eval_arguments("pages/pretty.jsonl")), 3, {"pretty.jsonl:1", "JSONL"});
  write_bytes(at("pages/pretty.jsonl"), nlohmann::json(read_pages("train.jsonl")).dump());
  expect_message(run(eval_arguments("pages/pretty.jsonl")), 3, {"pretty.jsonl:1", "not one array"});
}

TEST_F(Refusal, OutputThatCannotBeWritten) {
  write_bytes(at("file"), "");
  expect_message(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("file")}), 5,
                 {"--output-dir", path("file")});
  expect_message(run(train_arguments("file")), 5, {"--output-dir", path("file")});
  expect_message(
      run({"predict", "--model", path("model"), "--data", path("pages/validation.jsonl"), "--draw", path("file")}), 5,
      {"--draw", path("file")});
  expect_message(run({"synth", "--output", path("file"), "--count", "1"}), 5, {path("file")});
}

TEST_F(Refusal, PicturesStayInTheirFolder) {
  std::vector<nlohmann::json> pages = read_pages("train.jsonl");
  pages[0]["id"] = "../escaped";
  pages[1]["id"] = pages[2]["id"] = "twice";
  write_pages("ids.jsonl", pages);
  const Outcome outcome = run({"predict", "--model", path("model"), "--data", path("pages/ids.jsonl"), "--output",
                               path("out.jsonl"), "--draw", path("pictures"), "--threads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(fs::exists(at("escaped.png")));
  // The folder has the pictures, and the mark of a folder that predict fills.
  EXPECT_EQ(std::distance(fs::directory_iterator(at("pictures")), {}), static_cast<std::ptrdiff_t>(pages.size() + 1));
  EXPECT_TRUE(fs::exists(at("pictures/.made-by-plimsoll-predict")));
}

}  // namespace
}  // namespace plimsoll
