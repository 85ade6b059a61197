// A command never overwrites its own inputs, and never writes into a directory with a user's files.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "program_fixture.h"
#include "support/variable.h"

namespace plimsoll {
namespace {

using namespace test;

class Outputs : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    make_model();
    files_ = snapshot();
  }
  // Returns the name and bytes of each file below the folder, except the program's own output.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(at("."))) {
      const std::string name = entry.path().lexically_relative(at(".")).string();
      if (entry.is_regular_file() && !name.starts_with("log.")) files[name] = file_bytes(entry.path());
    }
    return files;
  }
  // Expects exit code 2 and the option's name, and that no file has changed or been added.
  void expect_refused(const Arguments& arguments, const std::string& option, const std::string& part) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    expect_message(run(arguments), 2, {"where:   " + option, part});
    const std::map<std::string, std::string> now = snapshot();
    for (const auto& [name, bytes] : files_) {
      EXPECT_TRUE(now.contains(name) && now.at(name) == bytes) << name << " has changed";
    }
    for (const auto& [name, bytes] : now) EXPECT_TRUE(files_.contains(name)) << name << " is new";
  }
  Arguments predict(const std::string& output, const std::string& data) const {
    return {"predict", "--model",  path("model"), "--data",    data, "--output",
            output,    "--budget", "1GiB",        "--threads", "1"};
  }
  void refresh() { files_ = snapshot(); }

 private:
  std::map<std::string, std::string> files_;
};

TEST_F(Outputs, AnInputIsNotReplacedHoweverItIsSpelt) {
  const std::string data = path("pages/validation.jsonl");
  fs::create_symlink(data, at("link.jsonl"));
  fs::create_hard_link(data, at("hard.jsonl"));
  fs::create_directory_symlink(at("pages"), at("folder"));
  refresh();
  for (const std::string& output : {data, path("pages/../pages/validation.jsonl"), path("link.jsonl"),
                                    path("hard.jsonl"), path("folder/validation.jsonl")}) {
    expect_refused(predict(output, data), "--output", "the input (--data)");
  }
  expect_refused(predict(data, path("link.jsonl")), "--output", "the input (--data)");
  expect_refused(predict(path("model/config.json"), data), "--output", "the input (--model)");
  expect_refused(predict(path("model/model.safetensors"), data), "--output", "the input (--model)");
  write_bytes(at("options.json"), R"({"threads": 1})");
  refresh();
  Arguments by_file = predict(path("options.json"), data);
  by_file.insert(by_file.end(), {"--config", path("options.json")});
  expect_refused(by_file, "--output", "the input (--config)");
  const std::string image = read_pages("validation.jsonl").front()["image"];
  expect_refused(predict(path("pages/" + image), data), "--output", "the image of ");
  expect_refused({"check", "--model", "layoutlmv3-tiny", "--data", data, "--fix", path("hard.jsonl")}, "--fix",
                 "the input (--data)");
  expect_refused({"plan", "--model", "layoutlmv3-tiny", "--data", data, "--svg", path("link.jsonl")}, "--svg",
                 "the input (--data)");
  expect_refused(
      {"grad", "--model", path("model"), "--batch", path("pages/train.jsonl"), "--output", path("pages/train.jsonl")},
      "--output", "the input (--batch)");
  expect_refused({"grad", "--model", path("model"), "--batch", path("pages/train.jsonl"), "--output",
                  path("model/model.safetensors")},
                 "--output", "the input (--model)");
  // Nor is one output by another.
  expect_refused(
      {"plan", "--model", "layoutlmv3-tiny", "--data", data, "--html", path("x"), "--memory-viz", path("pages/../x")},
      "--html, --memory-viz", "two outputs would be one file");
  Arguments drawn = predict(path("x"), data);
  drawn.insert(drawn.end(), {"--draw-pdf", path("x")});
  expect_refused(drawn, "--output, --draw-pdf", "two outputs would be one file");
  for (const char* name : {"run/metrics.jsonl", "run/model.safetensors", "run/checkpoint-1/config.json"}) {
    expect_refused(train_arguments("run", {"--max-steps", "1", "--events", path(name)}), "--events",
                   "the run writes this file itself");
  }
  expect_refused(
      train_arguments("other", {"--max-steps", "1", "--events",
                                path("pages/" + read_pages("train.jsonl").front()["image"].get<std::string>())}),
      "--events", "the image of ");
  // Outputs that conflict with nothing are written, also over earlier ones.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(predict(path("model/found.jsonl"), data)).code, 0);
}

// As under mpirun -n 2.
TEST_F(Outputs, AModelIsPrunedAndTrainedByOneProcess) {
  const Variable size("OMPI_COMM_WORLD_SIZE", "2"), rank("OMPI_COMM_WORLD_RANK", "0");
  expect_message(run({"prune", "--model", path("model"), "--data", path("pages/train.jsonl"), "--to-flops", "0.5",
                      "--epochs", "1", "--output-dir", path("made")}),
                 2, {"a model is pruned by one process", "without mpirun, and without --epochs", "--zero-stage 2"});
  EXPECT_FALSE(fs::exists(at("made")));
}

TEST_F(Outputs, PicturesAreNotDrawnAmongOthers) {
  Arguments draw = predict(path("out.jsonl"), path("pages/validation.jsonl"));
  draw.insert(draw.end(), {"--draw", path("pages/images")});
  expect_refused(draw, "--draw", "files that were not written by this command");
  draw.back() = path("drawn");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(draw).code, 0) << "twice into its own folder";
}

TEST_F(Outputs, DirectoriesOfOthersAreLeftAlone) {
  fs::create_directory(at("mine"));
  write_bytes(at("mine/train.jsonl"), "my own data");
  fs::create_directory(at("mine/images"));
  write_bytes(at("mine/images/00000.png"), "my own picture");
  fs::create_directory(at("mine/checkpoint-3.tmp"));
  write_bytes(at("mine/checkpoint-3.tmp/notes"), "my own notes");
  refresh();
  expect_refused({"synth", "--output", path("mine"), "--count", "2"}, "--output", "not written by this command");
  expect_refused({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("mine")}, "--output-dir",
                 "holds files already");
  expect_refused({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("model")}, "--output-dir",
                 "holds files already");
  expect_refused(train_arguments("mine", {"--max-steps", "1"}), "--output-dir", "not written by Plimsoll");
  expect_refused(train_arguments("mine", {"--max-steps", "1", "--overwrite-output-dir"}), "--output-dir",
                 "not written by Plimsoll");
  expect_refused(train_arguments("pages", {"--max-steps", "1"}), "--output-dir", "not written by Plimsoll");
  Arguments onto = train_arguments("model", {"--max-steps", "1"});
  onto[2] = path("model");
  expect_refused(onto, "--output-dir", "the input (--model)");
  // The run's own log may already be there.
  fs::create_directory(at("logged"));
  write_bytes(at("logged/train.log"), "");
  EXPECT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("logged")}).code, 0);
}

TEST_F(Outputs, SynthDrawsAgainIntoItsOwnFolder) {
  EXPECT_EQ(run({"synth", "--output", path("pages"), "--count", "7", "--validation-fraction", "0.34"}).code, 0);
  EXPECT_TRUE(fs::exists(at("pages/images/00006.png")));
}

// Every command refuses a pipe without a writer with a message instead of waiting forever.
TEST_F(Outputs, APipeAsInputIsRefusedAtOnce) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::copy(at("model"), at("piped"));
  fs::remove(at("piped/config.json"));
  ASSERT_EQ(::mkfifo(path("piped/config.json").c_str(), 0600), 0);
  std::vector<nlohmann::json> pages = read_pages("validation.jsonl");
  pages.front()["image"] = pipe;
  write_pages("piped.jsonl", pages);
  const std::string data = path("pages/validation.jsonl");
  const std::vector<Arguments> commands = {
      {"check", "--model", "layoutlmv3-tiny", "--data", pipe},
      {"check", "--model", "layoutlmv3-tiny", "--data", data, "--eval-data", pipe},
      {"check", "--model", "layoutlmv3-tiny", "--data", path("pages/piped.jsonl")},
      {"check", "--model", path("piped"), "--data", data},
      {"check", "--model", "layoutlmv3-tiny", "--tokenizer", pipe, "--data", data},
      {"check", "--model", "layoutlmv3-tiny", "--labels", pipe, "--data", data},
      {"check", "--model", pipe, "--data", data},
      {"check", "--config", pipe},
      {"check", "--config=" + pipe},
      {"grad", "--model", path("model"), "--batch", pipe, "--output", path("grad.safetensors")},
      {"replay", pipe},
      {"merge", "--adapter", pipe, "--output-dir", path("merged")},
      {"doctor", pipe},
      {"doctor", "--snapshot", pipe},
      train_arguments("run", {"--resume-from-checkpoint", pipe})};
  for (const Arguments& arguments : commands) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    Process process(arguments, at("log"));
    std::atomic<bool> ended{false};
    std::jthread watch([&] {
      for (int i = 0; i < 2400 && !ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(25));
      if (!ended) process.signal(SIGKILL);
    });
    const Outcome outcome = process.wait();
    ended = true;
    EXPECT_TRUE(outcome.code == 2 || outcome.code == 3) << outcome.code << outcome.err;
  }
}

}  // namespace
}  // namespace plimsoll
