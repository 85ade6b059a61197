// What cannot work is refused with the right exit code and one message that says where, what was found and what is allowed.
#include "program_fixture.h"

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

}  // namespace
}  // namespace plimsoll
