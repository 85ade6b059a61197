// Trains, evaluates and predicts with the models whose tokenizers are not byte-level BPE.
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using nlohmann::json;

class OtherTokenizers : public ProgramTest {
 protected:
  void SetUp() override { draw_pages(); }

  // Copies the weights of a test model, which has 120 words and 40 positions, and returns its configuration.
  json copy_weights(const std::string& model) const {
    const fs::path source = source_dir() / "test/data/model" / model;
    fs::create_directories(at("model"));
    fs::copy_file(source / "model.safetensors", at("model/model.safetensors"));
    return json::parse(file_bytes(source / "config.json"));
  }

  // Expects that a run writes a model with the tokenizer's `file`, which eval and predict read again.
  void expect_that_it_trains(const std::string& file) const {
    const std::string held_out = path("pages/validation.jsonl");
    const Outcome trained = run({"train", "--model", path("model"), "--data", path("pages/train.jsonl"), "--eval-data",
                                 held_out, "--output-dir", path("run"), "--max-steps", "2", "--train-batch-size", "2",
                                 "--threads", "1", "--budget", "1GiB", "--json"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(file_bytes(at("run") / file), file_bytes(at("model") / file));
    const Outcome scored = run({"eval", "--model", path("run"), "--data", held_out, "--json", "--threads", "1"});
    ASSERT_EQ(scored.code, 0) << scored.err;
    EXPECT_NEAR(json::parse(scored.out)["loss"].get<double>(), last_event(trained)["evaluation"]["loss"].get<double>(),
                1e-5);
    const Outcome predicted =
        run({"predict", "--model", path("run"), "--data", held_out, "--output", path("out.jsonl"), "--threads", "1"});
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    std::ifstream lines(at("out.jsonl"));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_EQ(json::parse(line)["labels"].size(), read_pages("validation.jsonl").at(count)["words"].size());
    }
    EXPECT_EQ(count, read_pages("validation.jsonl").size());
  }
};

TEST_F(OtherTokenizers, TrainsBertWithWordPiece) {
  const json config = copy_weights("bert");
  write_bytes(at("model/config.json"), config.dump());
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntotal\nrm\n##00\n.\n,\n-\n/\n:\n";
  for (char digit = '0'; digit <= '9'; ++digit) vocabulary += std::string(1, digit) + "\n##" + digit + "\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += std::string(1, letter) + "\n##" + letter + "\n";
  write_bytes(at("model/vocab.txt"), vocabulary);
  expect_that_it_trains("vocab.txt");
}

TEST_F(OtherTokenizers, TrainsXlmRobertaWithUnigram) {
  json config = copy_weights("roberta");
  config["model_type"] = "xlm-roberta";
  write_bytes(at("model/config.json"), config.dump());
  json vocabulary = json::array();
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>"}) vocabulary.push_back(json::array({token, 0.0}));
  for (const char* token : {"\u2581", ".", ",", "-", "/", "TO", "\u2581RM", "00"}) {
    vocabulary.push_back(json::array({token, -2.5}));
  }
  for (char character = '0'; character <= 'Z'; ++character) {
    vocabulary.push_back(json::array({std::string(1, character), -3.0 - character / 100.0}));
  }
  vocabulary.push_back(json::array({"<mask>", 0.0}));
  const json tokenizer = {
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"replacement", "\u2581"}}}}}},
      {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", vocabulary}}}};
  write_bytes(at("model/tokenizer.json"), tokenizer.dump());
  expect_that_it_trains("tokenizer.json");
}

}  // namespace
}  // namespace plimsoll
