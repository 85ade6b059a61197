// Tests options: their names, config files, and unknown options.
#include <array>
#include <set>
#include <sstream>
#include <utility>

#include "cli/elsewhere.h"
#include "program_fixture.h"
#include "support/sanitizer.h"

namespace plimsoll {
namespace {

using namespace test;

class Usage : public ProgramTest {};

TEST_F(Usage, UnknownOptionsAndCommandsAreUsageErrors) {
  const Outcome option = run({"synth", "--output", path("pages"), "--colour", "red"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, testing::HasSubstr("--colour"));
  EXPECT_EQ(run({"polish"}).code, 2);
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"train", "--model", "layoutlmv3-tiny"}).code, 2);  // --data is missing
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({"--version"}).code, 0);
}

TEST_F(Usage, UnderscoresAreAsGoodAsDashes) {
  const Outcome outcome = run({"synth", "--output", path("pages"), "--count", "4", "--validation_fraction=0.5"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_pages("validation.jsonl").size(), 2U);
}

TEST_F(Usage, SameSeedSameBytes) {
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run({"synth", "--output", path(name), "--count", "3", "--seed", "11"}).code, 0);
  }
  ASSERT_EQ(run({"synth", "--output", path("c"), "--count", "3", "--seed", "12"}).code, 0);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(at("a"))) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_TRUE(file_bytes(entry.path()) == file_bytes(at("b") / fs::relative(entry.path(), at("a")))) << entry.path();
  }
  EXPECT_GE(files, 5);
  EXPECT_NE(file_bytes(at("a/train.jsonl")), file_bytes(at("c/train.jsonl")));
}

TEST_F(Usage, ConfigFilesInJsonAndToml) {
  write_bytes(at("options.json"), R"({"count": 5, "validation_fraction": 0.4})");
  write_bytes(at("options.toml"), "count = 5\nvalidation-fraction = 0.4\n");
  for (const char* name : {"options.json", "options.toml"}) {
    fs::remove_all(at("pages"));
    const Outcome outcome = run({"synth", "--output", path("pages"), "--config", path(name)});
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    EXPECT_EQ(read_pages("train.jsonl").size(), 3U) << name;
    EXPECT_EQ(read_pages("validation.jsonl").size(), 2U) << name;
  }
  // A section may name the command; a list stands for names with commas.
  write_bytes(at("section.toml"), "[synth]\ncount = 2\n");
  EXPECT_EQ(run({"synth", "--output", path("section"), "--config", path("section.toml")}).code, 0);
  expect_message(run({"check", "--config", path("section.toml"), "--model", "x", "--data", "y"}), 2,
                 {"[synth]", "[check]"});
  write_bytes(at("list.json"), R"({"labels": ["O", "B-X"], "model": "layoutlmv3-tiny"})");
  EXPECT_EQ(run({"init", "--output-dir", path("listed"), "--config", path("list.json")}).code, 0);
  write_bytes(at("nested.json"), R"({"count": {"of": 5}})");
  expect_message(run({"synth", "--output", path("x"), "--config", path("nested.json")}), 2, {"count"});
  write_bytes(at("cut.json"), "{\"count\": 5,\n \"seed\": 3,,}");
  expect_message(run({"synth", "--output", path("x"), "--config", path("cut.json")}), 2, {"byte 24", "line 2"});
  std::string parts = "[a";
  for (int i = 0; i < 100'000; ++i) parts += ".a";
  write_bytes(at("deep.toml"), parts + "]\nx = 1\n");
  expect_message(run({"synth", "--output", path("x"), "--config", path("deep.toml")}), 2, {"line 1", "100 parts"});
  write_bytes(at("marked.toml"), "\xEF\xBB\xBFoutput = \"" + path("marked") + "\"\ncount = 1\n");
  EXPECT_EQ(run({"synth", "--config", path("marked.toml")}).code, 0);
  expect_message(run({"synth", "--output", path("x"), "--config"}), 2, {"--config", "no value"});
  write_bytes(at("options.yaml"), "# of a run\nmax_steps: 5\nlearning_rate: 1e-3\n");
  expect_message(run({"train", "--config", path("options.yaml")}), 2, {"YAML", "max_steps: 5", "JSON"});
  expect_message(run({"synth", "--output", path("x"), "--seed", "99999999999999999999"}), 2,
                 {"--seed", "from 0 to 9223372036854775807"});
  write_bytes(at("empty.json"), " \n");
  expect_message(run({"synth", "--output", path("x"), "--config", path("empty.json")}), 2, {"empty", "2 bytes"});
  write_bytes(at("list.json"), R"([{"count": 2}])");
  expect_message(run({"synth", "--output", path("x"), "--config", path("list.json")}), 2, {"not a JSON object"});
  write_bytes(at("comments.json"), R"({"_comment": "two", "count": 2, "//": "pages", "_comment_seed": 1})");
  EXPECT_EQ(run({"synth", "--output", path("commented"), "--config", path("comments.json")}).code, 0);
  // The command line overrides the file; an unknown name is not ignored.
  ASSERT_EQ(run({"synth", "--output", path("few"), "--config", path("options.json"), "--count", "2"}).code, 0);
  EXPECT_FALSE(fs::exists(at("few/images/00004.png")));
  write_bytes(at("wrong.json"), R"({"cuont": 5})");
  const Outcome wrong = run({"synth", "--output", path("x"), "--config", path("wrong.json")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, testing::HasSubstr("cuont"));
  write_bytes(at("wrong.json"), R"({"count": )");
  EXPECT_EQ(run({"synth", "--output", path("x"), "--config", path("wrong.json")}).code, 2);
}

TEST_F(Usage, MisspeltNamesAreNamedAndCorrected) {
  // An unknown option is reported before a missing one, such as --model here.
  expect_message(run({"train", "--learnin-rate", "1e-3"}), 2, {"--learnin-rate", "did you mean --learning-rate?"});
  expect_message(run({"train", "--lr=1e-3"}), 2, {"did you mean --learning-rate?"});
  expect_message(run({"train", "--output_dri", "run"}), 2, {"did you mean --output-dir?"});
  expect_message(run({"train", "--half"}), 2, {"master weights", "pass --bf16"});
  expect_message(run({"train", "--torch-dtype", "float16"}), 2, {"master weights", "pass --bf16"});
  expect_message(run({"calibrate", "--bf16", "--fp16"}), 2, {"two precisions"});
  expect_message(run({"synth", "--xyzzy", "1"}), 2,
                 {"unknown option --xyzzy", "Plimsoll has no equivalent; see plimsoll synth --help"});
  expect_message(run({"trian"}), 2, {"did you mean plimsoll train?"});
  expect_message(run({"--json", "check"}), 2, {"before the command"});
  expect_message(run({"train", "--threads", "1", "-o", "run"}), 2, {"unknown option -o", "--help"});
  expect_message(run({"train", "-max_steps", "2"}), 2, {"-max_steps", "two dashes: --max-steps"});
  expect_message(run({"train", "--report-to", "tensorboard", "wandb"}), 2, {"'wandb' after --report-to", "commas"});
  expect_message(run({"train", "--lr-scheduler-type", "COSINE"}), 2, {"did you mean cosine?"});
  expect_message(run({"train", "--optim", "AdamW"}), 2, {"did you mean adamw"});
  expect_message(run({"train", "--per-device-train-batch-size", "0"}), 2, {"--per-device-train-batch-size", "from 1"});
  expect_message(run({}), 2, {"synth, ocr, check, plan, train"});
  write_bytes(at("wrong.toml"), "validation_fractoin = 0.5\n");
  expect_message(run({"synth", "--output", path("x"), "--config", path("wrong.toml")}), 2,
                 {"--config " + path("wrong.toml") + ", line 1", "did you mean --validation-fraction?"});
}

// Whatever is wrong with an option of a file, the message says where it stands; for one that is typed it does not.
TEST_F(Usage, AFaultOfAConfigFileIsNamedWithItsLine) {
  const auto train = [&](const std::string& name, const std::string& text, const std::vector<std::string>& more = {}) {
    write_bytes(at(name), text);
    std::vector<std::string> arguments{"train",        "--model", "layoutlmv3-tiny", "--data",  "none.jsonl",
                                       "--output-dir", path("x"), "--config",        path(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const std::string toml = "--config " + path("a.toml"), json = "--config " + path("a.json");
  const std::vector<std::array<std::string, 3>> faults = {
      {"a.toml", "\nmax_steps = \n", toml + ", line 2, column 13"},
      {"a.toml", "max_steps = 3\n\nmax_steps = 4\n", toml + ", line 3, column 13"},
      {"a.toml", "max_steps 3\n", toml + ", line 1, column 11"},
      {"a.toml", "bf16 = yes\n", toml + ", line 1, column 8"},
      {"a.toml", "[train]\nmax_steps = 'few'\n", "--max-steps, " + toml + ", line 2"},
      {"a.toml", "[train]\nbf16 = 3\n", "--bf16, " + toml + ", line 2"},
      {"a.toml", "per_device_train_batch_size = 2\ntrain_batch_size = 5\n",
       "--per-device-train-batch-size, " + toml + ", line 1"},
      {"a.toml", "[train]\nlora_rank = 3\n\n[predict]\nmax_steps = 4\n", toml + ", line 5"},
      {"a.toml", "[other]\nmax_steps = 4\n", toml + ", line 1, \"other\""},
      {"a.json", R"({"max_steps": 3, "max_steps": 4})", json},
      {"a.json", R"({"max_steps": 3, "max-steps": 4})", "an option stands twice"},
      {"a.json", R"({"cache": true})", "--cache, " + json},
      {"a.json", R"({"cache": "a\u0000b"})", "a path, in quotes"},
      {"a.json", R"({"config": "other.json"})", "--config stands in the config file"},
      {"a.json", std::string("{}\0{", 4), "not a JSON object"},
      {"a.json", R"({"max_steps": "few"})", "--max-steps, " + json},
      {"a.json", R"({"train": {"bf16": "perhaps"}})", "--bf16, " + json},
      {"a.json", R"({"predict": {"bf16": true}})", "[predict]"},
  };
  for (const auto& [name, text, where] : faults) expect_message(train(name, text), 2, {where});
  const Outcome typed = train("a.toml", "max_steps = 'few'\n", {"--max-steps", "many"});
  EXPECT_EQ(typed.code, 2);
  EXPECT_THAT(typed.err, testing::Not(testing::HasSubstr("a.toml")));
}

TEST_F(Usage, ModelsThatAreNotThere) {
  const auto check = [&](const std::string& model) { return run({"check", "--model", model, "--data", "x.jsonl"}); };
  expect_message(check("layoutlmv3-tinny"), 2, {"no such model", "did you mean layoutlmv3-tiny?"});
  expect_message(check("microsoft/layoutlmv3-base"), 2, {"hf download microsoft/layoutlmv3-base --local-dir"});
  fs::create_directories(at("models"));
  expect_message(check(path("models/mine")), 2, {"config.json and model.safetensors", "hf download"});
}

TEST_F(Usage, FilesThatAreNoModelAndNoData) {
  write_bytes(at("model.safetensors"), std::string("\x10\0\0\0\0\0\0\0{\"a\": 1}", 16));
  write_bytes(at("config.json"), "{}");
  write_bytes(at("pages.parquet"), "PAR1....PAR1");
  write_bytes(at("scan.png"), "\x89PNG\r\n\x1A\n....");
  const auto check = [&](const std::string& model, const std::string& data) {
    return run({"check", "--model", model, "--data", data});
  };
  expect_message(check(path("model.safetensors"), "x.jsonl"), 2,
                 {"safetensors file", "pass the directory that holds it"});
  expect_message(check(path("config.json"), "x.jsonl"), 2, {"not a model directory", "pass the directory"});
  expect_message(check(path("pages.parquet"), "x.jsonl"), 2, {"a parquet file", "data belongs to --data"});
  expect_message(check("layoutlmv3-tiny", path("pages.parquet")), 3, {"a parquet file", "tools/convert_dataset.py"});
  expect_message(check("layoutlmv3-tiny", path("scan.png")), 3, {"a PNG picture", "plimsoll ocr"});
  expect_message(check("layoutlmv3-tiny", "nielsr/funsd"), 3, {"Hugging Face hub", "hf download nielsr/funsd"});
}

TEST_F(Usage, SizesHaveUnits) {
  const Arguments train = {"train", "--model",      "layoutlmv3-tiny", "--data",
                           "x",     "--output-dir", path("run"),       "--budget"};
  const auto with = [&](const std::string& size) {
    Arguments all = train;
    all.push_back(size);
    return run(all);
  };
  expect_message(with("4"), 2, {"--budget", "'4'", "did you mean 4GiB?"});
  EXPECT_THAT(run({"train", "--help"}).out, testing::HasSubstr("3GB (of 1000^3)"));
}

TEST_F(Usage, OptionsThatWouldDoNothingAreRefused) {
  draw_pages();
  const Arguments train = {"train",        "--model",  "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                           "--output-dir", path("run")};
  const auto with = [&](const Arguments& more) {
    Arguments all = train;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  expect_message(with({"--eval-steps", "5"}), 2, {"--eval-steps", "no --eval-data"});
  expect_message(with({"--truncate", "--stride", "20"}), 2, {"--stride", "--truncate"});
  expect_message(with({"--max-length", "1"}), 2,
                 {"--max-length", "found:   1", "3 (the first and the last token and one between) to 512"});
  expect_message(with({"--max-length", "5000"}), 2,
                 {"--max-length", "3 (the first and the last token and one between) to 512"});
}

TEST_F(Usage, UsageErrorsAreJsonToo) {
  const Outcome outcome = run({"train", "--json", "--learnin-rate", "1"});
  EXPECT_EQ(outcome.code, 2);
  const nlohmann::json error = nlohmann::json::parse(outcome.out).at("error");
  EXPECT_EQ(error.at("exit_code"), 2);
  EXPECT_EQ(error.at("found"), "--learnin-rate");
}

TEST_F(Usage, ValuesThatCannotBeUsed) {
  const std::vector<std::array<std::string, 2>> bad = {{"--learning-rate", "nan"},
                                                       {"--learning-rate", "inf"},
                                                       {"--learning-rate", "-1"},
                                                       {"--learning-rate", "fast"},
                                                       {"--num-train-epochs", "0"},
                                                       {"--num-train-epochs", "nan"},
                                                       {"--warmup-ratio", "1.5"},
                                                       {"--weight-decay", "nan"},
                                                       {"--max-grad-norm", "nan"},
                                                       {"--train-batch-size", "0"},
                                                       {"--train-batch-size", "-1"},
                                                       {"--max-steps", "1.5"},
                                                       {"--seed", "-1"},
                                                       {"--save-steps", "-4"},
                                                       {"--max-length", "-5"},
                                                       {"--stride", "99999"},
                                                       {"--threads", "5000"},
                                                       {"--lr-scheduler-type", "poly"},
                                                       {"--optim", "sgd"},
                                                       {"--metric-for-best-model", "bleu"},
                                                       {"--eval-steps", ""},
                                                       {"--budget", ""}};
  for (const auto& [option, value] : bad) {
    SCOPED_TRACE(option + " " + value);
    Arguments arguments = {"train",        "--model",      "layoutlmv3-tiny", "--data",
                           "absent.jsonl", "--output-dir", path("run")};
    arguments.insert(arguments.end(), {option, value});
    expect_message(run(arguments), 2, {"where:   " + option, "'" + value + "'", "allowed:"});
  }
  EXPECT_FALSE(fs::exists(at("run")));
  expect_message(run({"synth", "--count", "2", "--count", "3"}), 2, {"--count", "more than once"});
  expect_message(run({"synth", "--output"}), 2, {"--output", "no value"});
  expect_message(run({"synth", "--count", "2"}), 2, {"--output", "missing"});
  expect_message(run({"synth", "--output", path("x"), "stray"}), 2, {"stray"});
}

TEST_F(Usage, HelpIsAManual) {
  const std::string top = run({"--help"}).out;
  EXPECT_EQ(run({"help"}).out, top);
  for (const char* name : {"synth", "check", "plan", "train", "eval", "predict", "grad", "init", "bench-step"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(top, testing::HasSubstr(std::string("\n  ") + name + " "));
    const Outcome help = run({name, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(run({"help", name}).out, help.out);
    for (const char* option : {"--json", "--config FILE", "--threads N"})
      EXPECT_THAT(help.out, testing::HasSubstr(option));
    // Each command has its own closing text or none, and never repeats the whole program's.
    EXPECT_THAT(help.out, testing::Not(testing::HasSubstr("A first run")));
    EXPECT_THAT(help.out, testing::Not(testing::HasSubstr("TEXT")));
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  }
  EXPECT_THAT(run({"replay", "--help"}).out, testing::HasSubstr("Usage: plimsoll replay DIR [options]"));
  EXPECT_THAT(run({"replay", "--help"}).out, testing::HasSubstr("\n  DIR  "));
  expect_message(run({"replay"}), 2, {"give DIR;"});
  EXPECT_THAT(run({"doctor", "--help"}).out, testing::HasSubstr("Usage: plimsoll doctor [LOG] [options]"));
  EXPECT_THAT(run({"doctor", "--help"}).out, testing::HasSubstr("\n  LOG  "));
  const std::string train = run({"train", "--help"}).out;
  EXPECT_THAT(train, testing::HasSubstr("plimsoll train --model MODEL --data FILE --output-dir DIR [options]"));
}

// As in Hugging Face, per-device size times accumulation steps is the effective batch.
TEST_F(Usage, BatchSizeIsPerDeviceSizeTimesAccumulationSteps) {
  draw_pages();
  const auto plan = [&](const Arguments& more) {
    Arguments all = {"plan",     "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                     "--budget", "1GiB",    "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  // Returns the number of pages in an update.
  const auto pages = [&](const Arguments& more) {
    const Outcome outcome = plan(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("train_batch_size").get<int>();
  };
  EXPECT_EQ(pages({}), 8);
  EXPECT_EQ(pages({"--per_device_train_batch_size", "2"}), 2);
  EXPECT_EQ(pages({"--gradient-accumulation-steps", "2"}), 16);
  EXPECT_EQ(pages({"--per-device-train-batch-size", "2", "--gradient-accumulation-steps", "3"}), 6);
  EXPECT_EQ(pages({"--train-batch-size", "12"}), 12);
  EXPECT_EQ(pages({"--train-batch-size", "12", "--per-device-train-batch-size", "3"}), 12);
  EXPECT_EQ(pages({"--train-batch-size", "12", "--gradient-accumulation-steps", "4"}), 12);
  EXPECT_EQ(pages({"--micro-batch-size", "4"}), 8);
  const auto split = [&](const Arguments& more) {
    const nlohmann::json object = nlohmann::json::parse(plan(more).out);
    return std::pair(object.at("micro_batch_size").get<int>(), object.at("gradient_accumulation_steps").get<int>());
  };
  EXPECT_EQ(split({"--per-device-train-batch-size", "6", "--micro-batch-size", "2"}), std::pair(2, 3));

  const auto refused = [&](const Arguments& more, const std::vector<std::string>& parts) {
    SCOPED_TRACE(more.front() + " " + more[1]);
    expect_message(plan(more), 2, parts);
  };
  refused({"--train-batch-size", "8", "--per-device-train-batch-size", "3", "--gradient-accumulation-steps", "2"},
          {"contradict", "where:   --train-batch-size", "8, but 3 x 2 = 6 pages",
           "pass --train-batch-size 6, or omit one"});
  refused({"--train-batch-size", "8", "--per-device-train-batch-size", "3"},
          {"contradict", "where:   --per-device-train-batch-size", "--train-batch-size 8"});
  refused({"--train-batch-size", "8", "--gradient-accumulation-steps", "3"},
          {"contradict", "where:   --gradient-accumulation-steps", "--train-batch-size 8"});
  refused({"--per-device-train-batch-size", "2", "--micro-batch-size", "3"},
          {"contradict", "where:   --micro-batch-size", "an update has 2 pages"});
  refused({"--per-device-train-batch-size", "1048576", "--gradient-accumulation-steps", "1048576"},
          {"too many pages", "at most 1048576"});
}

// Flags are parsed as by HfArgumentParser.
TEST_F(Usage, FlagsTakeTrueAndFalse) {
  draw_pages();
  const auto plan = [&](const Arguments& more) {
    Arguments all = {"plan",     "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"),
                     "--budget", "1GiB",    "--max-length",    "64"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto precision = [&](Arguments more) {
    more.insert(more.end(), {"--json", "True"});
    const Outcome outcome = plan(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("precision").get<std::string>();
  };
  const std::string plain = precision({}), bf16 = precision({"--bf16"});
  EXPECT_NE(plain, bf16);
  for (const char* yes : {"True", "true", "yes", "T", "1"}) EXPECT_EQ(precision({"--bf16", yes}), bf16) << yes;
  for (const char* no : {"False", "false", "No", "f", "0"}) EXPECT_EQ(precision({"--bf16", no}), plain) << no;
  EXPECT_EQ(precision({"--bf16=True", "--fp16=False"}), bf16);
  EXPECT_EQ(precision({"--bf16", "True", "--fp16", "False"}), bf16);
  write_bytes(at("flags.json"), R"({"bf16": "True", "pad_to_max_length": false, "fp16": "no"})");
  EXPECT_EQ(precision({"--config", path("flags.json")}), bf16);
  EXPECT_THAT(plan({"--json", "False"}).out, testing::HasSubstr("memory plan"));
  expect_message(plan({"--bf16", "maybe"}), 2,
                 {"unexpected argument 'maybe' after --bf16", "--bf16 True or --bf16 False"});
  expect_message(plan({"--bf16=maybe"}), 2, {"where:   --bf16", "'maybe'", "True or False"});
  expect_message(plan({"stray"}), 2, {"unexpected argument 'stray' after --max-length"});
  // Tests every flag of every command, whether it makes sense there or not: its value is never an unexpected argument.
  for (const char* name :
       {"synth", "check", "plan", "train", "eval", "predict", "grad", "init", "merge", "calibrate"}) {
    const std::string help = run({name, "--help"}).out;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find("  --");
      if (begin != 0) continue;
      const std::string option = line.substr(2, line.find(' ', 2) - 2);
      const bool is_flag = line.size() == option.size() + 2 || line.substr(option.size() + 2, 2) == "  ";
      if (!is_flag) continue;
      const Outcome outcome = run({name, option, "True", "--no-such-option"});
      EXPECT_THAT(outcome.err, testing::HasSubstr("unknown option --no-such-option")) << name << " " << option;
    }
  }
}

TEST_F(Usage, GuessesDoNotCrossMeanings) {
  const auto remedy = [&](const std::string& command, const std::string& option) {
    const std::string err = run({command, option, "1"}).err;
    const std::size_t begin = err.find("to do:");
    return begin == std::string::npos ? err : err.substr(begin);
  };
  const std::vector<std::array<std::string, 3>> meant = {
      {"train", "--learnin-rate", "did you mean --learning-rate?"},
      {"train", "--leraning_rate", "did you mean --learning-rate?"},
      {"train", "--learningrate", "did you mean --learning-rate?"},
      {"train", "--max-step", "did you mean --max-steps?"},
      {"train", "--train-epochs", "did you mean --num-train-epochs?"},
      {"train", "--gradient-checkpoint", "did you mean --gradient-checkpointing?"},
      {"train", "--r", "did you mean --lora-rank?"},
      {"train", "--validation_file", "did you mean --eval-data?"},
      {"eval", "--batch-size", "did you mean --per-device-eval-batch-size?"},
      {"predict", "--output-dir", "did you mean --output?"},
      // These names are valid elsewhere, and mean something else than similarly spelt ones.
      {"eval", "--save-steps",
       "it is an option of plimsoll plan, plimsoll train, plimsoll prune, not of plimsoll eval"},
      {"predict", "--fp16", "not of plimsoll predict"},
      {"convert", "--data", "did you mean --input?"},
      {"init", "--output", "did you mean --output-dir?"},
      {"generate", "--output-dir", "did you mean --output?"},
      {"train", "--cache-dir", "neither downloads nor uploads"},
      {"train", "--optim-args", "--adam-epsilon"},
      {"train", "--fsdp", "--zero-stage"},
      {"train", "--tf16", "Plimsoll has no equivalent; see plimsoll train --help"},
      {"train", "--sharded-ddp", "mpirun or srun"},
      {"train", "--load", "Plimsoll has no equivalent"},
  };
  for (const auto& [command, option, expected] : meant) {
    EXPECT_THAT(remedy(command, option), testing::HasSubstr(expected)) << command << " " << option;
  }
}

// The table of other programs' options only names options that exist.
TEST_F(Usage, NamesFromElsewhereLeadToOptionsThatExist) {
  std::string helps;
  for (const char* name : {"synth", "check", "plan", "train", "eval", "predict", "init", "merge", "grad"}) {
    helps += run({name, "--help"}).out;
  }
  std::set<std::string_view> seen;
  for (const ElsewhereOption& option : elsewhere_options()) {
    EXPECT_TRUE(option.name.starts_with("--")) << option.name;
    EXPECT_TRUE(seen.insert(option.name).second) << option.name << " stands twice";
    std::istringstream words{std::string(option.here)};
    for (std::string here; words >> here;) {
      EXPECT_NE(helps.find("\n  " + here + " "), std::string::npos) << option.name << " leads to " << here;
    }
  }
}

// `plan` describes the run that `train` would make: its options and config file are the same.
TEST_F(Usage, PlanTakesAllThatTrainTakes) {
  draw_pages();
  std::vector<std::string> missing;
  const std::string plan_help = run({"plan", "--help"}).out;
  std::istringstream lines(run({"train", "--help"}).out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  --")) continue;
    const std::string option = line.substr(2, line.find(' ', 2) - 2);
    if (plan_help.find("\n  " + option) == std::string::npos) missing.push_back(option);
  }
  EXPECT_THAT(missing, testing::IsEmpty());
  write_bytes(at("run.toml"), "[train]\noutput_dir = \"" + path("run") +
                                  "\"\nsave_steps = 3\nlogging_steps = 1\nlog_order = true\nmax_steps = 20\n"
                                  "labels = [\"O\", \"B-ADDRESS\", \"I-ADDRESS\", \"B-COMPANY\", \"I-COMPANY\", "
                                  "\"B-DATE\", \"I-DATE\", \"B-TOTAL\", \"I-TOTAL\"]\n");
  const Outcome planned = run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget",
                               "1GiB", "--config", path("run.toml"), "--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(nlohmann::json::parse(planned.out).at("updates"), 20);
  EXPECT_FALSE(fs::exists(at("run")));  // a plan writes nothing
}

TEST_F(Usage, MostLoaderWorkersAreTheSameEverywhere) {
  draw_pages();
  const auto plan = [&](const char* workers) {
    return run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget", "4GiB",
                "--dataloader-num-workers", workers});
  };
  EXPECT_EQ(plan("64").code, 0);
  expect_message(plan("65"), 2, {"where:   --dataloader-num-workers", "'65'", "-1 to 64"});
  EXPECT_EQ(run(train_arguments("run", {"--max-steps", "1", "--dataloader-num-workers=64"})).code, 2);  // given twice
  Arguments many = train_arguments("run", {"--max-steps", "1"});
  *(std::find(many.begin(), many.end(), "--dataloader-num-workers") + 1) = "64";
  const Outcome trained = run(many);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(Usage, APlanSweepsOverBudgets) {
  if (!kResidentSetIsSteady) GTEST_SKIP() << "a sanitizer's resident set is not the program's";
  draw_pages();
  const Outcome outcome = run({"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--sweep",
                               "--points", "4", "--svg", path("sweep.svg"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json sweep = nlohmann::json::parse(outcome.out).at("sweep");
  ASSERT_EQ(sweep.size(), 4U);
  for (const nlohmann::json& plan : sweep) {
    EXPECT_LE(plan.at("predicted_peak_bytes").get<std::size_t>(), plan.at("budget_bytes").get<std::size_t>());
    EXPECT_GT(plan.at("pages_per_second").get<double>(), 0);
  }
  const std::string svg = file_bytes(at("sweep.svg"));
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 4U);
}

TEST_F(Usage, LeversThatContradictEachOther) {
  draw_pages();
  const auto plan = [&](const Arguments& more) {
    Arguments all = {"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget", "1GiB"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  expect_message(plan({"--gradient-checkpointing", "--recompute", "none"}), 2,
                 {"contradict", "--gradient-checkpointing"});
  expect_message(plan({"--update-mode", "in-backward"}), 2, {"--max-grad-norm", "two-passes"});
  EXPECT_THAT(plan({"--update-mode", "in-backward", "--max-grad-norm", "0"}).out, testing::HasSubstr("in backward"));
  EXPECT_THAT(plan({"--gradient-checkpointing"}).out, testing::HasSubstr("recomputed in backward"));
}

TEST_F(Usage, OptionsWithoutEffectAreSaid) {
  draw_pages();
  const auto told = [&](const Arguments& more) {
    Arguments all = {"plan", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--budget", "1GiB"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  const std::pair<Arguments, const char*> idle[] = {
      {{"--distil-hidden", "0.5"}, "--distil-hidden changes nothing without --distil-from"},
      {{"--teacher-bits", "4"}, "--teacher-bits changes nothing without --distil-from"},
      {{"--eval-delay", "3"}, "--eval-delay changes nothing without --eval-data"},
      {{"--metric-for-best-model", "loss"}, "--metric-for-best-model changes nothing without --eval-data"},
      {{"--greater-is-better", "True"}, "--greater-is-better changes nothing without --eval-data"},
      {{"--early-stopping-threshold", "0.1"}, "changes nothing without --early-stopping-patience"},
      {{"--optim", "adafactor", "--adam-beta2", "0.98"}, "--adam-beta2 changes nothing with --optim adafactor"},
      {{"--logging-dir", path("logs")}, "--logging-dir changes nothing without --report-to tensorboard"},
      {{"--zero-stage", "2"}, "--zero-stage changes nothing in one process"},
      {{"--temperature", "0.2"}, "--temperature changes nothing for token-classification"},
      {{"--pages", path("pages/train.jsonl")}, "--pages changes nothing for token-classification"}};
  for (const auto& [options, line] : idle) EXPECT_THAT(told(options), testing::HasSubstr(line));
  // A script that passes every default asks for nothing.
  EXPECT_THAT(told({"--adam-beta1", "0.90", "--adam-epsilon", "1e-08", "--optim", "adafactor", "--eval-delay", "0",
                    "--distil-temperature", "2", "--teacher-bits", "8", "--temperature", "0.05"}),
              Not(testing::HasSubstr("changes nothing")));
}

TEST_F(Usage, TheOptimizerIsChosenByName) {
  draw_pages();
  write_bytes(at("run.toml"), "optim = \"adafactor\"\n");
  std::vector<std::size_t> peaks;
  for (const Arguments& more :
       {Arguments{}, Arguments{"--optim", "adamw_8bit"}, Arguments{"--config", path("run.toml")}}) {
    Arguments all = {
        "plan", "--json",          "--model", "layoutlmv3-tiny", "--data",  path("pages/train.jsonl"), "--budget",
        "1GiB", "--max-grad-norm", "0",       "--freeze",        "*.word_*"};  // of which Adafactor would have all rows
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    const nlohmann::json plan = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(plan.at("optim"), more.empty() ? "adamw_torch" : more[0] == "--config" ? "adafactor" : more[1]);
    peaks.push_back(plan.at("predicted_peak_bytes").get<std::size_t>());
  }
  EXPECT_LT(peaks[1], peaks[0]);
  EXPECT_LT(peaks[2], peaks[1]);
}

}  // namespace
}  // namespace plimsoll
