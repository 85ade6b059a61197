// Pruned models, as their user sees them: what is written, what every other command makes of it, what is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "formats/safetensors.h"
#include "program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Prune : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    ASSERT_EQ(run(train_arguments("run", {"--max-steps", "4"})).code, 0);
  }
  Outcome prune(const std::string& output, const Arguments& more) const {
    Arguments all = {
        "prune",    "--model", path("run"), "--data", path("pages/train.jsonl"), "--output-dir", path(output),
        "--budget", "1GiB",    "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  json config(const std::string& model) const { return json::parse(file_bytes(at(model) / "config.json")); }
  json evaluation(const std::string& model) const {
    const Outcome outcome =
        run({"eval", "--model", path(model), "--data", path("pages/train.jsonl"), "--threads", "1", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? json::parse(outcome.out) : json();
  }
};

TEST_F(Prune, WritesEachLayersOwnWidthsForOurCommands) {
  const Outcome outcome = prune("small", {"--to-flops", "0.5", "--layout", "plimsoll", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_LE(told.at("kept_share"), 0.5);
  EXPECT_GT(told.at("kept_share"), 0.4);
  EXPECT_EQ(told.at("windows"), 4);
  for (const char* key : {"parameters", "layer_products_per_row", "seconds_per_page", "predicted_peak_bytes"}) {
    EXPECT_LT(told.at("after").at(key), told.at("before").at(key)) << key;
  }
  EXPECT_LE(told.at("after").at("layer_products_per_row").get<double>(),
            0.5 * told.at("before").at("layer_products_per_row").get<double>());
  EXPECT_LE(told.at("measured_peak_bytes"), 1U << 30);
  const json now = config("small");
  EXPECT_EQ(now.at("model_type"), "plimsoll-pruned-layoutlmv3");
  EXPECT_EQ(now.at("architectures").at(0), "PrunedLayoutLMv3ForTokenClassification");
  EXPECT_EQ(now.at("pruned_layers"), told.at("layers"));
  EXPECT_FALSE(fs::exists(at("small/.plimsoll")));
  // Not as good as before, but no other model.
  EXPECT_NEAR(evaluation("small").at("loss").get<double>(), evaluation("run").at("loss").get<double>(), 0.2);

  // Every command takes it for a model; training goes on from it and writes one of the same widths.
  const std::string model = path("small"), data = path("pages/train.jsonl");
  for (const Arguments& arguments :
       {Arguments{"predict", "--model", model, "--data", data, "--output", path("out.jsonl")},
        Arguments{"plan", "--model", model, "--data", data, "--budget", "1GiB"},
        Arguments{"compare", path("run"), model, "--data", data}}) {
    const Outcome of = run(arguments);
    EXPECT_EQ(of.code, 0) << of.err;
  }
  Arguments again = train_arguments("again", {"--max-steps", "2"});
  *(std::find(again.begin(), again.end(), "--model") + 1) = model;
  const Outcome trained = run(again);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(config("again").at("pruned_layers"), now.at("pruned_layers"));
  EXPECT_EQ(config("again").at("model_type"), now.at("model_type"));
  EXPECT_EQ(run({"eval", "--model", path("again"), "--data", data}).code, 0);
}

// The equations of a map need other memory for each number of columns that stay, and not always less for fewer.
TEST_F(Prune, EveryShareCanBeReached) {
  for (const char* share : {"0.35", "0.5", "0.55", "0.6", "0.7", "0.85"}) {
    const std::string output = std::string("small-") + share;
    const Outcome outcome = prune(output, {"--to-flops", share, "--layout", "plimsoll"});
    EXPECT_EQ(outcome.code, 0) << share << outcome.err;
  }
}

// The share of the arithmetic is that of what is stored, so no head is stored as zeros for its sake.
TEST_F(Prune, WritesOneWidthForTransformers) {
  const Outcome outcome = prune("small", {"--to-flops", "0.7", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json told = json::parse(outcome.out), now = config("small"), before = config("run");
  EXPECT_LE(told.at("kept_share"), 0.7);
  EXPECT_EQ(told.at("kept_share"), told.at("nonzero_share"));
  EXPECT_NEAR(told.at("kept_share").get<double>(),
              told.at("after").at("layer_products_per_row").get<double>() /
                  told.at("before").at("layer_products_per_row").get<double>(),
              1e-9);
  EXPECT_EQ(now.at("model_type"), "layoutlmv3");
  EXPECT_EQ(now.at("architectures"), before.at("architectures"));
  EXPECT_EQ(now.at("num_attention_heads"), before.at("num_attention_heads"));
  EXPECT_LT(now.at("intermediate_size"), before.at("intermediate_size"));
  EXPECT_FALSE(now.contains("pruned_layers"));
  for (const json& layer : told.at("layers")) EXPECT_EQ(layer.at("intermediate_size"), now.at("intermediate_size"));
  EXPECT_NEAR(evaluation("small").at("loss").get<double>(), evaluation("run").at("loss").get<double>(), 0.2);
}

// Of the layers' arithmetic, 0.4 is less than the heads of both layers take, and 0.1 than a head and a block of columns
// of both.
TEST_F(Prune, RemovesWholeLayersWhereTheShareAsksForIt) {
  for (const auto& [layout, share] : {std::pair("transformers", "0.4"), {"plimsoll", "0.1"}}) {
    const std::string output = std::string("few-") + layout;
    const Outcome outcome = prune(output, {"--to-flops", share, "--layout", layout, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json told = json::parse(outcome.out), now = config(output);
    EXPECT_EQ(told.at("kept_layers"), json::array({1})) << layout;
    EXPECT_EQ(now.at("num_hidden_layers"), 1);
    EXPECT_EQ(told.at("layers").size(), 1U);
    EXPECT_LE(told.at("kept_share"), std::stod(share));
    EXPECT_LT(told.at("after").at("parameters"), told.at("before").at("parameters"));
    EXPECT_NEAR(told.at("kept_share").get<double>(),
                told.at("after").at("layer_products_per_row").get<double>() /
                    told.at("before").at("layer_products_per_row").get<double>(),
                1e-9);
    EXPECT_LT(evaluation(output).at("loss").get<double>(), evaluation("run").at("loss").get<double>() + 0.5);
  }
}

// Heads go where zeros are asked for. They take no gradient and no decay, so they stay zeros in training.
TEST_F(Prune, HeadsThatAreStoredAsZerosStayZeros) {
  const Outcome outcome = prune("sparse", {"--sparsity", "0.6", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_LE(told.at("nonzero_share"), 0.4);
  EXPECT_GT(told.at("kept_share"), told.at("nonzero_share"));
  const auto zeros = [&](const std::string& model) {
    const SafetensorsReader file(at(model) / "model.safetensors");
    std::map<std::string, std::set<std::size_t>> heads;  // by layer's map: those whose rows are zeros
    for (const TensorEntry& entry : file.entries()) {
      const std::string& name = entry.name;
      if (name.find("attention.self.") == std::string::npos || !name.ends_with(".weight")) continue;
      std::vector<float> values(static_cast<std::size_t>(entry.type.shape.elements()));
      file.read(name, std::as_writable_bytes(std::span(values)));
      const std::size_t of_head = values.size() / 3;
      for (std::size_t head = 0; head < 3; ++head) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(head * of_head);
        if (std::all_of(begin, begin + static_cast<std::ptrdiff_t>(of_head), [](float v) { return v == 0; })) {
          heads[name].insert(head);
        }
      }
    }
    return heads;
  };
  const auto before = zeros("sparse");
  ASSERT_FALSE(before.empty());
  for (const char* optimizer : {"adamw_torch", "adamw_8bit", "adafactor"}) {
    Arguments again = train_arguments(
        optimizer, {"--max-steps", "3", "--optim", optimizer, "--weight-decay", "0.1", "--distil-from", path("run")});
    *(std::find(again.begin(), again.end(), "--model") + 1) = path("sparse");
    const Outcome trained = run(again);
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(zeros(optimizer), before) << optimizer;
    EXPECT_NE(file_bytes(at(optimizer) / "model.safetensors"), file_bytes(at("sparse/model.safetensors")));
  }
}

TEST_F(Prune, TrainsWhatItHasPruned) {
  const Arguments training = {"--to-flops",
                              "0.5",
                              "--layout",
                              "plimsoll",
                              "--epochs",
                              "2",
                              "--learning-rate",
                              "1e-3",
                              "--per-device-train-batch-size",
                              "2",
                              "--eval-data",
                              path("pages/validation.jsonl"),
                              "--offload",
                              path("."),
                              "--json"};
  const Outcome outcome = prune("small", training);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<json> events;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  ASSERT_EQ(events.front().at("event"), "prune");
  EXPECT_LE(events.front().at("kept_share"), 0.5);
  EXPECT_EQ(events.back().at("event"), "end");
  EXPECT_EQ(events.back().at("steps"), 4);
  // It learns from the teacher's logits alone, unless more is asked for.
  const json arguments = json::parse(file_bytes(at("small/args.json")));
  EXPECT_EQ(arguments.at("options").at("distil_hidden"), 0);
  EXPECT_EQ(arguments.at("options").at("distil_relations"), 0);
  // The run's model has the widths of the one that it began with, and other weights.
  EXPECT_EQ(config("small").at("pruned_layers"), config("small/pruned").at("pruned_layers"));
  EXPECT_NE(file_bytes(at("small/model.safetensors")), file_bytes(at("small/pruned/model.safetensors")));
  EXPECT_EQ(json::parse(file_bytes(at("small/prune.json"))).at("kept_share"), events.front().at("kept_share"));
  const double loss = evaluation("small").at("loss"), untrained = evaluation("small/pruned").at("loss");
  EXPECT_LT(loss, untrained);
  // What it learnt from is in the plan.
  bool taught = false;
  for (const json& event : events) {
    if (event.at("event") == "plan") taught = event.dump().find("the teacher's parameters") != std::string::npos;
  }
  EXPECT_TRUE(taught);
  // The run stands where it is, unless it may go aside, whole.
  expect_message(prune("small", training), 2, {"--output-dir", "--overwrite-output-dir"});
  Arguments over = training;
  over.emplace_back("--overwrite-output-dir");
  EXPECT_EQ(prune("small", over).code, 0);
  for (const char* name : {"small/earlier-1/pruned/config.json", "small/earlier-1/prune.json",
                           "small/earlier-1/model.safetensors", "small/pruned/config.json", "small/prune.json"}) {
    EXPECT_TRUE(fs::exists(at(name))) << name;
  }
}

TEST_F(Prune, ARunThatStoppedGoesOnWithoutPruningAgain) {
  // In the layout whose checkpoints have a model type of their own.
  const Arguments options = {
      "--layout", "plimsoll",     "--to-flops", "0.5", "--epochs", "2", "--per-device-train-batch-size",
      "2",        "--save-steps", "1"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), options.begin(), options.end());
    return more;
  };
  ASSERT_EQ(prune("whole", options).code, 0);
  // As it stands after Ctrl-C behind the second update.
  fs::create_directories(at("half"));
  for (const char* name : {"checkpoint-2", "pruned", "prune.json"}) {
    fs::copy(at("whole") / name, at("half") / name, fs::copy_options::recursive);
  }
  EXPECT_EQ(run({"eval", "--model", path("half/pruned"), "--data", path("pages/train.jsonl")}).code, 0);
  expect_message(prune("half", with({"--resume-from-checkpoint", "latest", "--sparsity", "0.7"})), 2,
                 {"--resume-from-checkpoint", "other targets"});
  const Outcome outcome = prune("half", with({"--resume-from-checkpoint", "latest"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("measured on")));
  EXPECT_EQ(file_bytes(at("half/model.safetensors")), file_bytes(at("whole/model.safetensors")));
  fs::remove(at("half/prune.json"));
  expect_message(prune("half", with({"--resume-from-checkpoint", "latest"})), 2, {"prune.json", "plimsoll train"});
}

TEST_F(Prune, TrainingThatDoesNotFitIsRefusedBeforeAnythingIsWeighed) {
  Arguments arguments = {"prune",        "--model",     path("run"), "--data",   path("pages/train.jsonl"),
                         "--output-dir", path("small"), "--threads", "1",        "--to-flops",
                         "0.5",          "--epochs",    "1",         "--budget", "40MiB"};
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  if (kResidentSetIsSteady) {
    EXPECT_THAT(outcome.err, HasSubstr("the teacher's parameters"));  // it is the training that needs the most
  }
  EXPECT_FALSE(fs::exists(at("small/pruned")));
}

TEST_F(Prune, PrunesAsFarAsMemoryAndTimeAsk) {
  const Outcome half = prune("half", {"--to-flops", "0.5", "--layout", "plimsoll", "--json"});
  ASSERT_EQ(half.code, 0) << half.err;
  const json before = json::parse(half.out).at("before");
  const double seconds = 0.8 * before.at("seconds_per_page").get<double>();
  const Outcome outcome =
      prune("small", {"--to-seconds", fmt::format("{}", seconds), "--layout", "plimsoll", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_LE(told.at("after").at("seconds_per_page"), seconds);
  EXPECT_GT(told.at("after").at("seconds_per_page"), 0.6 * seconds);
  expect_message(prune("other", {"--to-memory", "8MiB"}), 2, {"--to-memory", "8.00 MiB", "or more"});
  EXPECT_FALSE(fs::exists(at("other/config.json")));
}

TEST_F(Prune, TellsWhatStays) {
  const Outcome outcome = prune("small", {"--sparsity", "0.6"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"parameters", "memory of eval", "layer  0:", "of 3 heads", "of 384 columns", "stored as zeros", "4 windows"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  const Outcome few = prune("few", {"--to-flops", "0.4"});
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_THAT(few.out, HasSubstr("layer  0: removed"));
}

TEST_F(Prune, RefusesWhatItCannotPrune) {
  expect_message(prune("small", {}), 2, {"--sparsity", "--to-flops 0.5"});
  expect_message(prune("small", {"--to-flops", "0.001"}), 2,
                 {"--to-flops", "its last layer keeps all heads and a block of columns"});
  expect_message(prune("small", {"--to-flops", "1.5"}), 2, {"--to-flops"});
  expect_message(prune("small", {"--sparsity", "0.999"}), 2, {"--sparsity", "or less"});
  expect_message(prune("small", {"--to-flops", "0.5", "--learning-rate", "1e-4"}), 2, {"--learning-rate", "--epochs"});
  expect_message(run({"prune", "--model", path("run"), "--data", path("pages/train.jsonl"), "--to-flops", "0.5",
                      "--output-dir", path("run")}),
                 2, {"--output-dir"});
  // Pages without labels.
  std::string unlabelled;
  std::ifstream pages(at("pages/train.jsonl"));
  for (std::string line; std::getline(pages, line);) {
    json page = json::parse(line);
    page.erase("labels");
    page["image"] = (at("pages") / page["image"].get<std::string>()).string();
    unlabelled += page.dump() + "\n";
  }
  write_bytes(at("unlabelled.jsonl"), unlabelled);
  const Outcome refused = run({"prune", "--model", path("run"), "--data", path("unlabelled.jsonl"), "--to-flops", "0.5",
                               "--output-dir", path("small")});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("label"));
  // Weights that are codes.
  ASSERT_EQ(run({"quantize", "--model", path("run"), "--output-dir", path("coded")}).code, 0);
  expect_message(run({"prune", "--model", path("coded"), "--data", path("pages/train.jsonl"), "--to-flops", "0.5",
                      "--output-dir", path("small")}),
                 2, {"quantized", "in 4 bits"});
  // Adapters.
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("base")}).code, 0);
  Arguments adapters = train_arguments("adapter", {"--max-steps", "1", "--lora-rank", "2"});
  *(std::find(adapters.begin(), adapters.end(), "--model") + 1) = path("base");
  ASSERT_EQ(run(adapters).code, 0);
  expect_message(run({"prune", "--model", path("adapter"), "--data", path("pages/train.jsonl"), "--to-flops", "0.5",
                      "--output-dir", path("small")}),
                 2, {"an adapter has no heads", "plimsoll merge"});
  // A model without a head: the bare encoder.
  expect_message(run({"prune", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--to-flops", "0.5",
                      "--output-dir", path("small")}),
                 2, {"preset"});
  EXPECT_FALSE(fs::exists(at("small/config.json")));
}

TEST_F(Prune, ALayoutThatContradictsItsNameIsRefused) {
  ASSERT_EQ(prune("small", {"--to-flops", "0.5", "--layout", "plimsoll"}).code, 0);
  const json good = config("small");
  const auto refused = [&](const json& changed) {
    fs::remove(at("small/checksums.json"));
    write_bytes(at("small/config.json"), changed.dump());
    const Outcome outcome = run({"eval", "--model", path("small"), "--data", path("pages/train.jsonl")});
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    return outcome.err;
  };
  json changed = good;
  changed["model_type"] = "layoutlmv3";
  EXPECT_THAT(refused(changed), HasSubstr("pruned_layers"));
  changed = good;
  changed.erase("pruned_layers");
  EXPECT_THAT(refused(changed), HasSubstr("model_type"));
  changed = good;
  changed["pruned_layers"].erase(0);
  EXPECT_THAT(refused(changed), HasSubstr("one by one"));
  changed = good;
  changed["pruned_layers"][0]["attention_heads"] = 4;
  EXPECT_THAT(refused(changed), HasSubstr("attention_heads"));
}

}  // namespace
}  // namespace plimsoll
