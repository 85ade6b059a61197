// Texts that a language model writes: greedy or drawn, from prompts, and what cannot be written.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/language_model_fixture.h"

namespace plimsoll::test {
namespace {

TEST_F(LanguageModel, WritesWhatItHasLearned) {
  ASSERT_EQ(run(train("run", "answers.jsonl", {"--max-steps", "60"})).code, 0);
  const auto generate = [&](const Arguments& more) {
    Arguments all = {"generate",  "--model", path("run"),        "--budget", "1GiB",
                     "--threads", "1",       "--max-new-tokens", "12"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome one = generate({"--prompt", "What is paid in cash? "});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "The total.\n");
  // A text ends with the token that completes a stop string.
  const Outcome stopped =
      generate({"--prompt", "What is paid in cash? ", "--stop-strings", "nothing like it", "--stop-strings", "he t"});
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.out.substr(0, 5), "The t");
  EXPECT_LT(stopped.out.size(), one.out.size());
  // It may begin in the prompt.
  const Outcome across = generate({"--prompt", "What is paid in cash? ", "--stop-strings", "? T"});
  EXPECT_EQ(across.out[0], 'T') << across.err;
  EXPECT_LT(across.out.size(), one.out.size());
  // Brackets are text.
  const Outcome brackets = generate({"--prompt", "[a,b]", "--stop-strings", "[]", "--json"});
  ASSERT_EQ(brackets.code, 0) << brackets.err;
  EXPECT_EQ(json::parse(brackets.out).at("prompt"), "[a,b]");
  // Several at once, and drawn: the same whoever is written beside them.
  std::string longer;  // than the rows that are read at once
  for (int i = 0; i < 60; ++i) longer += "Receipt " + std::to_string(i) + " ";
  write_pages("prompts.jsonl", {{{"prompt", "What is paid in cash? "}, {"id", "first"}},
                                {{"prompt", longer}},
                                {{"prompt", "What"}},
                                {{"prompt", longer + longer}},
                                {{"prompt", "a b c"}}});
  const Arguments drawn = {"--data", path("pages/prompts.jsonl"), "--do-sample", "--temperature", "2", "--seed", "5"};
  const Outcome together = generate(drawn);
  ASSERT_EQ(together.code, 0) << together.err;
  Arguments alone = drawn;
  alone.insert(alone.end(), {"--per-device-eval-batch-size", "1"});
  EXPECT_EQ(generate(alone).out, together.out);
  alone.back() = "2";
  *(std::ranges::find(alone, "--seed") + 1) = "6";
  EXPECT_NE(generate(alone).out, together.out);
  const json line = json::parse(together.out.substr(0, together.out.find('\n')));
  EXPECT_EQ(line.at("prompt"), "What is paid in cash? ");
  EXPECT_EQ(line.at("id"), "first");
  EXPECT_LE(line.at("tokens").size(), 12U);
}

TEST_F(LanguageModel, BeginsWithATokenizerOfItsOwnWhoseEndItNames) {
  const std::string tokenizer = (test_data_dir() / "tokenizers/llama2.json").string();
  const Outcome made = run(
      {"init", "--model", "llama-tiny", "--task", "causal-lm", "--tokenizer", tokenizer, "--output-dir", path("own")});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ((made.out + made.err).find("hf download"), std::string::npos) << made.out << made.err;
  const json config = json::parse(file_bytes(at("own/config.json")));
  EXPECT_EQ(config.at("bos_token_id"), 1);
  EXPECT_EQ(config.at("eos_token_id"), 2);
}

// The last new token is not read, so that it needs no position.
TEST_F(LanguageModel, ATextMayFillThePositions) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("lm")}).code, 0);
  const auto generated = [&](int positions, const Arguments& more, const std::string& generation = "{}") {
    json config = json::parse(file_bytes(at("lm/config.json")));
    config["max_position_embeddings"] = positions;
    config["eos_token_id"] = nullptr;
    fs::remove(at("lm/checksums.json"));
    write_bytes(at("lm/config.json"), config.dump());
    write_bytes(at("lm/generation_config.json"), generation);
    Arguments all = {"generate", "--model", path("lm"), "--prompt", "the", "--threads", "1", "--budget", "1GiB"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome longer = generated(8, {"--max-new-tokens", "9"});
  EXPECT_EQ(longer.code, 3);
  EXPECT_THAT(longer.err, testing::HasSubstr("positions"));
  const std::string found = "found:   ";
  const int prompt = std::stoi(longer.err.substr(longer.err.find(found) + found.size()));
  EXPECT_EQ(generated(8, {"--max-new-tokens", std::to_string(9 - prompt)}).code, 0) << longer.err;
  EXPECT_EQ(generated(8, {"--max-new-tokens", std::to_string(10 - prompt)}).code, 3);
  // Its max_length counts the prompt, too; an option or max_new_tokens decides before it.
  const auto warned = testing::HasSubstr("max_length = 9");
  EXPECT_THAT(generated(100, {}, R"({"max_length": 9})").err, warned);
  EXPECT_THAT(generated(100, {}, R"({"max_length": 90})").err, testing::Not(testing::HasSubstr("max_length")));
  EXPECT_THAT(generated(100, {}, R"({"max_length": 9, "max_new_tokens": 12})").err, testing::Not(warned));
  EXPECT_THAT(generated(100, {"--max-new-tokens", "12"}, R"({"max_length": 9})").err, testing::Not(warned));
}

TEST_F(LanguageModel, GenerationThatCannotBeIsRefused) {
  ASSERT_EQ(run({"init", "--model", "gpt2-tiny", "--task", "causal-lm", "--output-dir", path("lm")}).code, 0);
  ASSERT_EQ(run({"init", "--model", "roberta-tiny", "--labels", "A,B", "--output-dir", path("tagger")}).code, 0);
  const auto refused = [&](const Arguments& arguments, int code, const std::string& text) {
    Arguments all = {"generate", "--threads", "1"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(text));
  };
  refused({"--model", path("lm")}, 2, "--prompt");
  refused({"--model", path("lm"), "--prompt", "a", "--top-p", "0"}, 2, "--top-p");
  refused({"--model", path("lm"), "--prompt", "a", "--stop-strings", ""}, 2, "--stop-strings");
  refused({"--model", path("lm"), "--prompt", "a", "--chat"}, 3, "no chat template");
  refused({"--model", path("lm"), "--data", path("pages/answers.jsonl"), "--chat"}, 2, "--chat");
  write_bytes(at("lm/generation_config.json"),
              R"({"do_sample": true, "temperature": 0, "num_beams": 4, "min_length": 0})");
  refused({"--model", path("lm"), "--prompt", "a"}, 3, "temperature");
  const Outcome beams = run({"generate", "--model", path("lm"), "--prompt", "a", "--temperature", "1", "--threads", "1",
                             "--budget", "1GiB", "--max-new-tokens", "1"});
  EXPECT_EQ(beams.code, 0) << beams.err;
  EXPECT_THAT(beams.err, testing::HasSubstr("num_beams = 4"));
  EXPECT_THAT(beams.err, testing::Not(testing::HasSubstr("min_length")));
  for (const char* wrong :
       {R"({"do_sample": "yes"})", R"({"max_new_tokens": "9"})", R"({"max_new_tokens": 2.5})",
        R"({"eos_token_id": ["</s>"]})", R"({"stop_strings": [5]})", R"({"stop_strings": {"a": "b"}})",
        R"({"stop_strings": ""})", R"({"do_sample": true, "top_k": "50"})"}) {
    write_bytes(at("lm/generation_config.json"), wrong);
    refused({"--model", path("lm"), "--prompt", "a"}, 3, "makes no sense");
  }
  fs::remove(at("lm/generation_config.json"));
  refused({"--model", path("lm"), "--prompt", "a", "--max-new-tokens", "2000"}, 3, "positions");
  refused({"--model", path("tagger"), "--prompt", "a"}, 2, "a causal language model");
  refused({"--model", path("lm"), "--prompt", "a", "--budget", "10MiB"}, 4, "--budget");
  write_bytes(at("pages/bad.jsonl"), "{\"prompt\": \"a\"}\n{\"text\": \"a\"}\n");
  refused({"--model", path("lm"), "--data", path("pages/bad.jsonl")}, 3, "bad.jsonl:2");
}

}  // namespace
}  // namespace plimsoll::test
