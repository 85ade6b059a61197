// Causal language models through the whole program: check, train, resume, eval, predict, wrong data.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/language_model_fixture.h"
#include "formats/safetensors.h"
#include "harness/paths.h"
#include "support/sanitizer.h"
#include "tensor/half.h"

namespace plimsoll::test {
namespace {

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

// Adapters are evaluated on the weights that they were trained on.
TEST_F(LanguageModel, HasTheSameLossInCodesAfterTrainingAsInIt) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  for (const char* bits : {"--load-in-8bit", "--load-in-4bit"}) {
    const Outcome outcome = run(train("run", "texts.jsonl",
                                      {"--model", path("base"), "--max-steps", "6", "--lora-rank", "4", bits,
                                       "--eval-data", path("pages/texts.jsonl"), "--overwrite-output-dir"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json summary = json::parse(file_bytes(at("run/summary.json")));
    const json now = json::parse(run({"eval", "--model", path("run"), bits, "--float-activations", "--data",
                                      path("pages/texts.jsonl"), "--threads", "1", "--json"})
                                     .out);
    EXPECT_NEAR(now.at("loss"), summary.at("evaluation").at("loss"), 1e-5) << bits;
  }
}

// The same weights differ in nothing, however many positions their configs name.
TEST_F(LanguageModel, IsComparedInTheSameWindows) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  fs::copy(at("base"), at("short"), fs::copy_options::recursive);
  json config = json::parse(file_bytes(at("short/config.json")));
  config["max_position_embeddings"] = 8;
  write_bytes(at("short/config.json"), config.dump());
  fs::remove(at("short/checksums.json"));
  const Outcome compared = run({"compare", path("base"), path("short"), "--data", path("pages/texts.jsonl"), "--rounds",
                                "1", "--threads", "1", "--json"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_EQ(json::parse(compared.out).at("difference"), 0);
  EXPECT_THAT(compared.err, testing::HasSubstr("windows of at most 8 tokens for both models"));
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
