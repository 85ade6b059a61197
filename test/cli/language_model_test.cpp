// Causal language models through the whole program: check, train, resume, eval, predict, wrong data.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/program_fixture.h"
#include "formats/safetensors.h"
#include "harness/paths.h"
#include "support/sanitizer.h"
#include "tensor/half.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;

class LanguageModel : public ProgramTest {
 protected:
  void SetUp() override {
    write_texts("texts.jsonl");
    std::vector<json> texts(24);
    for (json& text : texts) text = {{"prompt", "What is paid in cash? "}, {"completion", "The total."}};
    write_pages("answers.jsonl", texts);
  }
  Arguments check_of(const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"check",        "--task", "causal-lm", "--model", "llama-tiny", "--data", path("pages/" + data),
                     "--max-length", "32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments train(const std::string& run, const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"train",
                     "--task",
                     "causal-lm",
                     "--model",
                     "llama-tiny",
                     "--data",
                     path("pages/" + data),
                     "--output-dir",
                     path(run),
                     "--budget",
                     "1GiB",
                     "--threads",
                     "1",
                     "--max-length",
                     "32",
                     "--learning-rate",
                     "5e-3",
                     "--seed",
                     "3",
                     "--logging-steps",
                     "1",
                     "--warmup-ratio",
                     "0"};
    // An option that is here already gets the other value.
    for (std::size_t i = 0; i < more.size(); ++i) {
      const auto known = std::ranges::find(all, more[i]);
      if (known != all.end() && more[i].starts_with("--")) {
        *(known + 1) = more[++i];
      } else {
        all.push_back(more[i]);
      }
    }
    return all;
  }
  // The arguments of a run with --json, with the smallest budget that a refusal of it names.
  Arguments with_smallest_budget(Arguments arguments) const {
    std::string& budget = *(std::ranges::find(arguments, "--budget") + 1);
    budget = "10MiB";
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.code, 4) << refused.out << refused.err;
    const std::size_t last = refused.out.find_last_of('\n', refused.out.size() - 2);
    const json error = json::parse(refused.out.substr(last == std::string::npos ? 0 : last + 1));
    budget = std::to_string(error.at("error").at("smallest_budget_bytes").get<std::int64_t>());
    return arguments;
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

TEST_F(LanguageModel, OtherWindowsThanTheRunsAreTold) {
  ASSERT_EQ(run(train("run", "texts.jsonl", {"--max-steps", "1"})).code, 0);
  const auto said = [this](const char* command, const Arguments& more) {
    Arguments all = {command, "--model", path("run"), "--data", path("pages/texts.jsonl"), "--budget", "1GiB"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all).err;
  };
  const auto tells = testing::HasSubstr("windows of 512 tokens here, and of 32 when the model was trained");
  EXPECT_THAT(said("eval", {}), testing::AllOf(tells, testing::HasSubstr("--max-length 32 evaluates as the run did")));
  EXPECT_THAT(said("predict", {"--output", path("out.jsonl")}),
              testing::AllOf(tells, testing::HasSubstr("--max-length 32 predicts as the run did")));
  EXPECT_THAT(said("eval", {"--max-length", "16"}), testing::Not(testing::HasSubstr("when the model was trained")));
}

TEST_F(LanguageModel, LearnsCompletionsAlone) {
  ASSERT_EQ(run(train("run", "answers.jsonl", {"--max-steps", "40"})).code, 0);
  EXPECT_LT(evaluated("run", "answers.jsonl").at("perplexity"), 1.5);
  EXPECT_GT(evaluated("run", "texts.jsonl").at("perplexity"), 100);
}

TEST_F(LanguageModel, ResumesBitForBit) {
  ASSERT_EQ(run(train("whole", "texts.jsonl", {"--max-steps", "6"})).code, 0);
  ASSERT_EQ(
      run(train("parts", "texts.jsonl", {"--max-steps", "6", "--save-steps", "3", "--save-total-limit", "5"})).code, 0);
  fs::remove(at("parts/model.safetensors"));
  for (const fs::directory_entry& entry : fs::directory_iterator(at("parts"))) {
    if (entry.path().filename() == "checkpoint-6") fs::remove_all(entry.path());
  }
  const Outcome outcome = run(
      train("parts", "texts.jsonl",
            {"--max-steps", "6", "--save-steps", "3", "--save-total-limit", "5", "--resume-from-checkpoint", "True"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(file_bytes(at("parts/model.safetensors")) == file_bytes(at("whole/model.safetensors")));
}

// The smallest plans go backward twice, chunks of the loss and all.
TEST_F(LanguageModel, TrainsInTheSmallestMemoryThatIsNamed) {
  for (const Arguments& more : {Arguments{}, Arguments{"--bf16", "--optim", "adamw_8bit"}}) {
    Arguments arguments = train("run", "texts.jsonl", {"--max-steps", "2", "--json", "--overwrite-output-dir"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(with_smallest_budget(std::move(arguments)));
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
}

TEST_F(LanguageModel, AHeadInPartsChangesNoBit) {
  const auto trained = [&](const std::string& name, const std::string& mode) {
    const Outcome outcome = run(train(name, "texts.jsonl",
                                      {"--model", "llama-small", "--max-steps", "3", "--bf16", "--optim", "adamw_8bit",
                                       "--max-grad-norm", "0", "--train-batch-size", "2", "--update-mode", mode}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return file_bytes(at(name + "/model.safetensors"));
  };
  const std::string whole = trained("whole", "in-backward");
  EXPECT_TRUE(trained("parts", "head-in-parts") == whole);
}

// Has a model's weights in bfloat16, as language models are published.
void save_in_bfloat16(const fs::path& model) {
  const SafetensorsReader weights(model / "model.safetensors");
  std::vector<TensorDeclaration> tensors;
  for (const TensorEntry& entry : weights.entries()) tensors.push_back({entry.name, {DType::kBF16, entry.type.shape}});
  SafetensorsWriter writer(model / "narrow.safetensors", tensors);
  for (const TensorEntry& entry : weights.entries()) {
    std::vector<float> values(static_cast<std::size_t>(entry.type.shape.elements()));
    weights.read(entry.name, std::as_writable_bytes(std::span(values)));
    std::vector<std::uint16_t> narrow;
    for (const float value : values) narrow.push_back(float_to_bfloat16(value));
    writer.write(std::as_bytes(std::span(narrow)));
  }
  writer.finish();
  fs::rename(model / "narrow.safetensors", model / "model.safetensors");
  fs::remove(model / "checksums.json");
}

// Weights, moments and activations in a file, as much of them as there is to offload; what is frozen is read in the
// model's own file.
TEST_F(LanguageModel, WeightsInAFileChangeNoBit) {
  struct Case {
    Arguments options;
    const char* saved;
    const char* offloaded;  // of the summary
  };
  // The least memory that the first can take has the head in parts.
  const Case cases[] = {
      {{"--bf16", "--optim", "adamw_8bit", "--max-grad-norm", "0"}, "model.safetensors", "offloaded_parameter_bytes"},
      {{"--lora-rank", "4", "--eval-data", path("pages/texts.jsonl"), "--eval-steps", "2"},
       "adapter_model.safetensors",
       "offloaded_in_place_bytes"},
      {{"--bf16", "--lora-rank", "4", "--lora-target-modules", "q_proj,up_proj", "--use-dora"},
       "adapter_model.safetensors",
       "offloaded_in_place_bytes"}};
  ASSERT_EQ(run({"init", "--model", "llama-small", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  save_in_bfloat16(at("base"));
  for (const Case& each : cases) {
    const auto arguments = [&](const std::string& name) {
      // Smaller micro-batches, which a small budget may choose, would sum gradients in another order.
      Arguments all = train(name, "texts.jsonl",
                            {"--model", path("base"), "--max-steps", "2", "--train-batch-size", "2",
                             "--micro-batch-size", "2", "--json", "--overwrite-output-dir"});
      all.insert(all.end(), each.options.begin(), each.options.end());
      return all;
    };
    Outcome outcome = run(arguments("memory"));
    ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    Arguments offloads = arguments("file");
    offloads.insert(offloads.end(), {"--offload", path(".")});
    offloads = with_smallest_budget(std::move(offloads));
    std::string& budget = *(std::ranges::find(offloads, "--budget") + 1);
    json summary;
    // The process may hold less by now than when the budget was named, and then there is no need to offload.
    for (int tries = 0; tries < 8; ++tries) {
      outcome = run(offloads);
      if (tries > 0 && outcome.code == 4) break;
      ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
      summary = json::parse(file_bytes(at("file/summary.json")));
      if (summary.at(each.offloaded) > 0 || !kResidentSetIsSteady) break;
      budget = std::to_string(std::stoll(budget) - kMiB);
    }
    EXPECT_TRUE(file_bytes(at("file/" + std::string(each.saved))) ==
                file_bytes(at("memory/" + std::string(each.saved))))
        << each.options.back();
    // A process that holds more anyway has a smallest budget in which there is no need to.
    if (kResidentSetIsSteady) {
      EXPECT_GT(summary.at(each.offloaded), 0) << each.options.back();
    }
    EXPECT_LE(summary.at("measured_peak_bytes"), summary.at("budget_bytes")) << each.options.back();
  }
}

// A file of its kind has its matrices the other way round, and its adapter says so.
// A model that was trained from a file can be used from one, too.
TEST_F(LanguageModel, WhatDoesNotTrainReadsWeightsFromAFileToo) {
  ASSERT_EQ(run({"init", "--model", "llama-small", "--task", "causal-lm", "--output-dir", path("model")}).code, 0);
  save_in_bfloat16(at("model"));
  const auto with = [](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  // The MiB that a refusal allows.
  const auto least = [&](const Arguments& arguments) {
    const Outcome refused = run(with(arguments, {"--budget", "10MiB"}));
    EXPECT_EQ(refused.code, 4) << refused.out << refused.err;
    const std::string allowed = "allowed: ";
    return std::stoi(refused.err.substr(refused.err.find(allowed) + allowed.size()));
  };
  for (const Arguments& command : std::vector<Arguments>{{"generate", "--prompt", "The total", "--max-new-tokens", "9"},
                                                         {"predict", "--data", path("pages/texts.jsonl")},
                                                         {"eval", "--data", path("pages/texts.jsonl"), "--json"}}) {
    const Arguments plain = with(command, {"--model", path("model"), "--threads", "1"});
    const Arguments from_file = with(plain, {"--offload", path(".")});
    const int memory = least(plain), file = least(from_file);
    if (kResidentSetIsSteady) {
      EXPECT_LT(file, memory - 3) << command.front();
    }
    const Outcome whole = run(with(plain, {"--budget", "1GiB"}));
    ASSERT_EQ(whole.code, 0) << whole.err;
    const Outcome streamed = run(with(from_file, {"--budget", fmt::format("{}MiB", file)}));
    ASSERT_EQ(streamed.code, 0) << streamed.err;
    if (command.back() == "--json") {
      EXPECT_EQ(json::parse(streamed.out).at("loss"), json::parse(whole.out).at("loss"));
    } else {
      EXPECT_EQ(streamed.out, whole.out);
    }
  }
}

// In half the memory for weights, and with nearly the same numbers.
TEST_F(LanguageModel, WhatDoesNotTrainMayComputeInBfloat16) {
  ASSERT_EQ(run(train("run", "answers.jsonl", {"--max-steps", "40"})).code, 0);
  const auto with = [](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Arguments of_run = {"--model", path("run"), "--threads", "1", "--budget", "1GiB", "--json"};
  const Arguments eval = with({"eval", "--data", path("pages/answers.jsonl")}, of_run);
  const Arguments generate = with({"generate", "--prompt", "What is paid in cash? ", "--max-new-tokens", "5"}, of_run);
  const Arguments bf16 = {"--bf16"}, from_file = {"--bf16", "--offload", path(".")};
  const auto told = [&](const Arguments& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  Arguments as_text = eval;
  as_text.pop_back();
  EXPECT_THAT(run(as_text).out, testing::HasSubstr(" texts in "));
  const json wide = told(eval), narrow = told(with(eval, bf16));
  const double loss = wide.at("loss");
  EXPECT_NEAR(narrow.at("loss"), loss, 0.02 + 0.05 * loss);
  EXPECT_NE(narrow.at("loss"), wide.at("loss"));
  EXPECT_EQ(told(with(eval, from_file)).at("loss"), narrow.at("loss"));

  const std::string text = told(generate).at("completion");
  EXPECT_EQ(text.substr(0, 10), "The total.");
  EXPECT_EQ(told(with(generate, bf16)).at("completion").get<std::string>().substr(0, 10), "The total.");
  EXPECT_EQ(
      run(with(with({"predict", "--data", path("pages/answers.jsonl"), "--output", path("out.jsonl")}, of_run), bf16))
          .code,
      0);

  const auto refused = [&](const Arguments& more) {
    const Outcome outcome =
        run(with({"generate", "--model", path("run"), "--prompt", "The", "--budget", "10MiB"}, more));
    EXPECT_EQ(outcome.code, 4);
    return outcome.err;
  };
  const auto parameters_of = [](const std::string& refusal) {
    const std::string item = "  parameters ";
    return std::stod(refusal.substr(refusal.find(item) + item.size()));
  };
  const std::string of_floats = refused({}), of_halves = refused(bf16);
  EXPECT_NEAR(parameters_of(of_halves), parameters_of(of_floats) / 2, 0.1);
  EXPECT_NE(of_floats.find("(--bf16)"), std::string::npos) << of_floats;
  EXPECT_EQ(of_halves.find("(--bf16)"), std::string::npos) << of_halves;
}

TEST_F(LanguageModel, AFamilyWithTransposedFilesTrainsAdaptsAndMerges) {
  ASSERT_EQ(run({"init", "--model", "gpt2-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  EXPECT_EQ(json::parse(file_bytes(at("base/config.json"))).at("architectures"), json({"GPT2LMHeadModel"}));
  const Outcome outcome = run(train(
      "run", "texts.jsonl",
      {"--model", path("base"), "--max-steps", "30", "--lora-rank", "8", "--load-in-4bit", "--learning-rate", "2e-2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(file_bytes(at("run/adapter_config.json"))).at("fan_in_fan_out"), true);
  ASSERT_EQ(run({"merge", "--adapter", path("run"), "--output-dir", path("merged")}).code, 0);
  const double adapted = evaluated("run", "texts.jsonl").at("loss");
  EXPECT_NEAR(evaluated("merged", "texts.jsonl").at("loss"), adapted, 1e-5);
  EXPECT_LT(adapted, evaluated("base", "texts.jsonl").at("loss").get<double>() - 0.5);
  ASSERT_EQ(run({"init", "--model", path("merged"), "--num-hidden-layers", "1", "--output-dir", path("half")}).code, 0);
  EXPECT_EQ(json::parse(file_bytes(at("half/config.json"))).at("n_layer"), 1);
}

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

// As AutoModelForCausalLM goes by the family alone.
TEST_F(LanguageModel, NeedsNoArchitectureInItsConfig) {
  ASSERT_EQ(run({"init", "--model", "gpt2-tiny", "--output-dir", path("base")}).code, 0);
  json config = json::parse(file_bytes(at("base/config.json")));
  config.erase("architectures");
  write_bytes(at("base/config.json"), config.dump());
  const Outcome outcome = run({"eval", "--model", path("base"), "--data", path("pages/texts.jsonl"), "--threads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("perplexity"));
}

TEST_F(LanguageModel, LearnsConversationsByTheModelsOwnTemplate) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  std::vector<json> chats;
  for (int i = 0; i < 24; ++i) {
    chats.push_back(
        {{"messages",
          {{{"role", "user"}, {"content", "Paid in cash?"}}, {{"role", "assistant"}, {"content", "The total."}}}}});
  }
  write_pages("chats.jsonl", chats);
  const Outcome without =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/chats.jsonl")});
  EXPECT_EQ(without.code, 3);
  EXPECT_THAT(without.out + without.err, testing::HasSubstr("no chat template"));
  write_bytes(at("base/chat_template.jinja"),
              "{% for m in messages %}\n[{{ m.role }}]{{ m.content }}{{ eos_token }}\n{% endfor %}\n"
              "{% if add_generation_prompt %}\n[assistant]{% endif %}");
  write_bytes(at("base/generation_config.json"), R"({"eos_token_id": [2], "do_sample": false})");
  const Outcome outcome = run(train("run", "chats.jsonl", {"--model", path("base"), "--max-steps", "60"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Both files go along.
  EXPECT_EQ(file_bytes(at("run/chat_template.jinja")), file_bytes(at("base/chat_template.jinja")));
  EXPECT_EQ(file_bytes(at("run/generation_config.json")), file_bytes(at("base/generation_config.json")));
  const Outcome answer = run({"generate", "--model", path("run"), "--chat", "--prompt", "Paid in cash?", "--budget",
                              "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, "The total.\n");
  // The answer that ends a conversation of the training data is left out, and given anew.
  const Outcome again = run({"generate", "--model", path("run"), "--data", path("pages/chats.jsonl"), "--budget",
                             "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  ASSERT_EQ(again.code, 0) << again.err;
  const json first = json::parse(again.out.substr(0, again.out.find('\n')));
  EXPECT_EQ(first.at("completion"), "The total.");
  EXPECT_THAT(first.at("prompt").get<std::string>(), testing::EndsWith("[assistant]"));
  // As lists, the prompt and its completion are the same conversation.
  write_pages("lists.jsonl", {{{"prompt", json::array({chats[0]["messages"][0]})},
                               {"completion", json::array({chats[0]["messages"][1]})}}});
  write_pages("chat.jsonl", {chats[0]});
  const auto answer_of = [&](const std::string& file) {
    const Outcome made = run({"generate", "--model", path("run"), "--data", path("pages/" + file), "--budget", "1GiB",
                              "--threads", "1", "--max-new-tokens", "12"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.out;
  };
  EXPECT_EQ(answer_of("lists.jsonl"), answer_of("chat.jsonl"));
  const auto loss_of = [&](const std::string& file) {
    const Outcome made = run({"eval", "--model", path("run"), "--data", path("pages/" + file), "--budget", "1GiB",
                              "--threads", "1", "--json"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.code == 0 ? json::parse(made.out).at("loss").get<double>() : -1;
  };
  EXPECT_EQ(loss_of("lists.jsonl"), loss_of("chat.jsonl"));
  // A smaller vocabulary numbers the tokens anew, in all files.
  const Outcome trimmed =
      run({"trim", "--model", path("run"), "--data", path("pages/chats.jsonl"), "--output-dir", path("small")});
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  EXPECT_THAT(trimmed.out, testing::HasSubstr("over different vocabularies"));
  const Outcome compared = run({"compare", path("run"), path("small"), "--data", path("pages/chats.jsonl"), "--budget",
                                "1GiB", "--threads", "1", "--rounds", "1"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.err, testing::HasSubstr("the models have different tokenizers"));
  const json config = json::parse(file_bytes(at("small/config.json")));
  EXPECT_LT(config.at("vocab_size"), 2000);
  EXPECT_EQ(json::parse(file_bytes(at("small/generation_config.json"))).at("eos_token_id"),
            json({config.at("eos_token_id")}));
  const Outcome same = run({"generate", "--model", path("small"), "--chat", "--prompt", "Paid in cash?", "--budget",
                            "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  EXPECT_EQ(same.out, answer.out) << same.err;
  write_pages("wrong.jsonl",
              {{{"messages", {{{"role", "user"}}}}}, {{"messages", {{{"role", "user"}, {"content", "a"}}}}}});
  const Outcome wrong =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/wrong.jsonl")});
  write_pages("half.jsonl",
              {{{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", "12.50"}},
               {{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", chats[0]["messages"]}},
               {{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", json::array({"12.50"})}},
               {{"prompt", json::array()}, {"completion", json::array({chats[0]["messages"][1]})}}});
  const Outcome half =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/half.jsonl")});
  EXPECT_EQ(half.code, 3);
  for (const char* part : {"`completion`", "a list of messages, as the other is",
                           "does not begin and end with an assistant", "a `prompt` without a message"}) {
    EXPECT_THAT(half.out + half.err, testing::HasSubstr(part));
  }
  EXPECT_EQ(wrong.code, 3);
  for (const char* part : {"wrong.jsonl:1", "message 0 without a `content`", "wrong.jsonl:2", "assistant"}) {
    EXPECT_THAT(wrong.out + wrong.err, testing::HasSubstr(part));
  }
}

// It decides how much memory the smallest plan needs.
TEST_F(LanguageModel, ARefusalNamesTheTextThatIsFarLongerThanTheOthers) {
  std::vector<json> texts(20, {{"text", "What is paid in cash?"}});
  write_pages("even.jsonl", texts);
  std::string text;
  for (int i = 0; i < 60; ++i) text += "What is paid in cash? ";
  texts[13]["text"] = text;
  write_pages("uneven.jsonl", texts);
  const auto refusal = [&](const std::string& file) {
    return run(
        {"plan", "--task", "causal-lm", "--model", "llama-tiny", "--data", path("pages/" + file), "--budget", "10MiB"});
  };
  EXPECT_THAT(refusal("uneven.jsonl").err,
              testing::AllOf(testing::HasSubstr("the longest is "), testing::HasSubstr("uneven.jsonl:14, page"),
                             testing::HasSubstr("nine of ten have at most ")));
  const Outcome even = refusal("even.jsonl");
  EXPECT_EQ(even.code, 4);
  EXPECT_THAT(even.err, testing::Not(testing::HasSubstr("the longest")));
}

TEST_F(LanguageModel, AConversationsToolsAreLearntFrom) {
  json chat = {{"messages",
                {{{"role", "user"}, {"content", "a"}},
                 {{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "add"}}}}}}},
                 {{"role", "tool"}, {"content", "3"}},
                 {{"role", "assistant"}, {"content", "b"}}}},
               {"tools", {{{"name", "add"}}}}};
  write_pages("tools.jsonl", {chat});
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  // A token to which the tokenizer gives a name of its own is known by it.
  json config = json::parse(file_bytes(at("base/tokenizer_config.json")));
  config["extra_special_tokens"] = {{"image_token", "<image>"}};
  fs::remove(at("base/checksums.json"));
  write_bytes(at("base/tokenizer_config.json"), config.dump());
  const std::string begin = "{% if image_token != '<image>' %}{{ raise_exception('no image_token') }}{% endif %}",
                    end = "{{ eos_token }}{% endfor %}";
  write_bytes(at("base/chat_template.jinja"), begin + "{% for m in messages %}{{ m.content }}" + end);
  const auto checked = [&] {
    return run({"check", "--model", path("base"), "--task", "causal-lm", "--data", path("pages/tools.jsonl")});
  };
  const Outcome refused = checked();
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.out + refused.err, testing::HasSubstr("does not write `tools`"));
  fs::create_directories(at("base/additional_chat_templates"));
  write_bytes(at("base/additional_chat_templates/tool_use.jinja"),
              begin +
                  "{% for t in tools %}{{ t.name }}{% endfor %}{% for m in messages %}"
                  "{% for c in m.tool_calls or [] %}({{ c.function.name }}){% endfor %}{{ m.content or '' }}" +
                  end);
  EXPECT_EQ(checked().code, 0);
  // The template goes with the model.
  const Outcome trained = run(train("run", "tools.jsonl", {"--model", path("base"), "--max-steps", "1"}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(at("run/additional_chat_templates/tool_use.jinja")));
  const Outcome again =
      run(train("run", "tools.jsonl", {"--model", path("base"), "--max-steps", "1", "--overwrite-output-dir"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(fs::exists(at("run/earlier-1/additional_chat_templates/tool_use.jinja")));
  EXPECT_EQ(
      run({"generate", "--model", path("run"), "--data", path("pages/tools.jsonl"), "--max-new-tokens", "2"}).code, 0);
  chat["chat_template_kwargs"] = "quiet";
  write_pages("tools.jsonl", {chat});
  EXPECT_EQ(checked().code, 3);
}

// A decoder pads nothing here, so its tokenizer may pad with another token than its config.json.
TEST_F(LanguageModel, PaddingMayDifferBetweenTokenizerAndModel) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  json config = json::parse(file_bytes(at("base/config.json")));
  config["pad_token_id"] = 2;
  config["layer_types"] = std::vector<std::string>(config.at("num_hidden_layers"), "full_attention");
  fs::remove(at("base/checksums.json"));
  write_bytes(at("base/config.json"), config.dump());
  const Outcome written =
      run({"generate", "--model", path("base"), "--prompt", "The", "--max-new-tokens", "1", "--threads", "1"});
  EXPECT_EQ(written.code, 0) << written.err;
  ASSERT_EQ(run({"init", "--model", path("base"), "--num-hidden-layers", "1", "--output-dir", path("one")}).code, 0);
  const json one = json::parse(file_bytes(at("one/config.json")));
  EXPECT_EQ(one.at("layer_types"), json({"full_attention"})) << "one for each layer, or transformers refuses it";
}

// Its update would be one of nothing, and its perplexity 1.
TEST_F(LanguageModel, ACompletionThatIsCutAwayIsNamed) {
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "What is paid in cash? ";
  write_pages("long.jsonl",
              {{{"prompt", "How much?"}, {"completion", "7.50"}}, {{"prompt", prompt}, {"completion", "7.50"}}});
  Arguments arguments = train("run", "long.jsonl", {"--max-steps", "1", "--truncate"});
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  const auto names_it = testing::AllOf(testing::HasSubstr("cut before the first token that is learnt"),
                                       testing::HasSubstr("long.jsonl:2"), testing::HasSubstr("--max-length"));
  EXPECT_THAT(outcome.err, names_it);
  const Outcome checked = run(check_of("long.jsonl", {"--truncate"}));
  EXPECT_EQ(checked.code, 3) << checked.err;
  EXPECT_THAT(checked.out, names_it);
}

TEST_F(LanguageModel, TokensThatAreCutAwayAreCounted) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "What is paid in cash? ";
  write_pages("long.jsonl", {{{"text", "short"}}, {{"text", text}}});
  const Outcome checked = run(check_of("long.jsonl", {"--truncate", "--json"}));
  EXPECT_EQ(checked.code, 0) << checked.err;
  const nlohmann::json counts = nlohmann::json::parse(checked.out);
  const auto lost = counts.at("lost_tokens").get<std::int64_t>();
  EXPECT_GT(lost, 40);
  EXPECT_EQ(counts.at("lost_words"), 0);
  const Outcome trained = run(train("run", "long.jsonl", {"--max-steps", "1", "--truncate"}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err,
              testing::HasSubstr(fmt::format("--truncate drops {} tokens at the ends of long texts", lost)));
}

TEST_F(LanguageModel, WhatIsForOtherModelsIsRefusedByName) {
  const Arguments data = {"--data", path("pages/texts.jsonl"), "--budget", "1GiB", "--threads", "1"};
  const auto refusal = [&](Arguments arguments) {
    arguments.insert(arguments.end(), data.begin(), data.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
    return outcome.err;
  };
  for (const std::string preset : {"llama-tiny", "gpt2-tiny"}) {
    ASSERT_EQ(run({"init", "--model", preset, "--output-dir", path(preset)}).code, 0);
    EXPECT_THAT(refusal({"prune", "--model", path(preset), "--output-dir", path("pruned"), "--sparsity", "0.5"}),
                testing::HasSubstr("decoders cannot be pruned"));
    EXPECT_THAT(refusal({"train", "--model", path(preset), "--distil-from", path(preset), "--output-dir", path("run")}),
                testing::HasSubstr("language models are not distilled"));
    EXPECT_THAT(refusal({"predict", "--model", path(preset), "--format", "csv"}),
                testing::HasSubstr("a text has none"));
  }
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
  for (const char* wrong : {R"({"do_sample": "yes"})", R"({"max_new_tokens": "9"})", R"({"max_new_tokens": 2.5})",
                            R"({"eos_token_id": ["</s>"]})", R"({"do_sample": true, "top_k": "50"})"}) {
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

TEST_F(LanguageModel, WrongDataIsNamed) {
  write_bytes(at("pages/bad.jsonl"), "{\"text\": \"a\"}\n{\"words\": [\"a\"]}\n{\"text\": \"\"}\n");
  const Outcome checked =
      run({"check", "--task", "causal-lm", "--model", "llama-tiny", "--data", path("pages/bad.jsonl")});
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
