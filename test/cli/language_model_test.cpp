// Causal language models through the whole program: check, train, resume, eval, predict, wrong data.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program_fixture.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

class LanguageModel : public ProgramTest {
 protected:
  void SetUp() override {
    fs::create_directories(at("pages"));
    std::vector<json> texts;
    for (int i = 0; i < 24; ++i) {
      texts.push_back({{"text", "The total of receipt number " + std::to_string(i % 4) + " is 7.50, paid in cash."}});
    }
    write_pages("texts.jsonl", texts);
    for (json& text : texts) text = {{"prompt", "What is paid in cash? "}, {"completion", "The total."}};
    write_pages("answers.jsonl", texts);
  }
  Arguments train(const std::string& run, const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"train",        "--task",       "causal-lm",    "--model",       "llama-tiny", "--data",
                     path("pages/" + data), "--output-dir", path(run),      "--budget",      "1GiB",       "--threads",
                     "1",            "--max-length", "32",           "--learning-rate", "5e-3",     "--seed",
                     "3",            "--logging-steps", "1",         "--warmup-ratio",  "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json evaluated(const std::string& model, const std::string& data) const {
    const Outcome outcome = run({"eval", "--model", path(model), "--data", path("pages/" + data), "--budget", "1GiB",
                                 "--threads", "1", "--max-length", "32", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

TEST_F(LanguageModel, LearnsTextsAndSaysHowLikelyTheyAre) {
  const Outcome outcome = run(train("run", "texts.jsonl", {"--max-steps", "40"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json config = json::parse(file_bytes(at("run/config.json")));
  EXPECT_EQ(config.at("architectures"), json({"LlamaForCausalLM"}));
  EXPECT_EQ(config.at("tie_word_embeddings"), true);
  const json scores = evaluated("run", "texts.jsonl");
  EXPECT_LT(scores.at("perplexity"), 3) << scores;  // a vocabulary of 8,000 begins there
  EXPECT_GT(scores.at("accuracy"), 0.8);
  EXPECT_NEAR(std::log(scores.at("perplexity").get<double>()), scores.at("loss").get<double>(), 1e-5);
  const Outcome predicted = run({"predict", "--model", path("run"), "--data", path("pages/texts.jsonl"), "--budget",
                                 "1GiB", "--threads", "1", "--max-length", "32", "--output", path("out.jsonl")});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const json first = json::parse(file_bytes(at("out.jsonl")).substr(0, file_bytes(at("out.jsonl")).find('\n')));
  EXPECT_LT(first.at("perplexity"), 4);
  EXPECT_GT(first.at("tokens"), 5);
}

TEST_F(LanguageModel, LearnsCompletionsAlone) {
  ASSERT_EQ(run(train("run", "answers.jsonl", {"--max-steps", "40"})).code, 0);
  EXPECT_LT(evaluated("run", "answers.jsonl").at("perplexity"), 1.5);
  EXPECT_GT(evaluated("run", "texts.jsonl").at("perplexity"), 100);
}

TEST_F(LanguageModel, ResumesBitForBit) {
  ASSERT_EQ(run(train("whole", "texts.jsonl", {"--max-steps", "6"})).code, 0);
  ASSERT_EQ(run(train("parts", "texts.jsonl", {"--max-steps", "6", "--save-steps", "3", "--save-total-limit", "5"})).code, 0);
  fs::remove(at("parts/model.safetensors"));
  for (const fs::directory_entry& entry : fs::directory_iterator(at("parts"))) {
    if (entry.path().filename() == "checkpoint-6") fs::remove_all(entry.path());
  }
  const Outcome outcome = run(train("parts", "texts.jsonl", {"--max-steps", "6", "--save-steps", "3",
                                                             "--save-total-limit", "5", "--resume-from-checkpoint", "True"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(file_bytes(at("parts/model.safetensors")) == file_bytes(at("whole/model.safetensors")));
}

// The smallest plans go backward twice, chunks of the loss and all.
TEST_F(LanguageModel, TrainsInTheSmallestMemoryThatIsNamed) {
  for (const Arguments& more : {Arguments{}, Arguments{"--bf16", "--optim", "adamw_8bit"}}) {
    Arguments arguments = train("run", "texts.jsonl", {"--max-steps", "2", "--json", "--overwrite-output-dir"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::string& budget = *(std::ranges::find(arguments, "--budget") + 1);
    budget = "10MiB";
    const Outcome refused = run(arguments);
    ASSERT_EQ(refused.code, 4) << refused.out << refused.err;
    const std::size_t last = refused.out.find_last_of('\n', refused.out.size() - 2);
    const json error = json::parse(refused.out.substr(last == std::string::npos ? 0 : last + 1));
    budget = std::to_string(error.at("error").at("smallest_budget_bytes").get<std::int64_t>());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
}

TEST_F(LanguageModel, WrongDataIsNamed) {
  write_bytes(at("pages/bad.jsonl"), "{\"text\": \"a\"}\n{\"words\": [\"a\"]}\n{\"text\": \"\"}\n");
  const Outcome checked = run({"check", "--task", "causal-lm", "--model", "llama-tiny", "--data", path("pages/bad.jsonl")});
  EXPECT_EQ(checked.code, 3) << checked.out;
  for (const char* part : {"bad.jsonl:2", "no `text`", "bad.jsonl:3", "empty"}) {
    EXPECT_THAT(checked.out + checked.err, testing::HasSubstr(part));
  }
  const Outcome labels = run(train("run", "texts.jsonl", {"--labels", "A,B"}));
  EXPECT_EQ(labels.code, 2);
  EXPECT_THAT(labels.err, testing::HasSubstr("the task has no labels"));
  const Outcome encoder = run(train("run", "texts.jsonl", {"--model", "roberta-tiny"}));
  EXPECT_EQ(encoder.code, 2);
}

}  // namespace
}  // namespace plimsoll::test
