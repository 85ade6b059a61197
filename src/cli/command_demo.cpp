#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/outputs.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

struct DemoOptions {
  fs::path output_dir = "demo";
  bool is_short = false;
};

// The commands that a user would type, one after the other: each runs in a separate process, so that it measures its
// own memory.
class Demo {
 public:
  Demo(const Invocation& invocation, const DemoOptions& options)
      : invocation_(invocation),
        directory_(options.output_dir),
        pages_(options.is_short ? "60" : "2400"),
        epochs_(options.is_short ? "2" : "5") {}

  int run() {
    const std::string train_pages = (directory_ / "pages/train.jsonl").string(),
                      held_out = (directory_ / "pages/validation.jsonl").string(), run = (directory_ / "run").string();
    const std::vector<std::string> options = {"--model",
                                              kModel,
                                              "--data",
                                              train_pages,
                                              "--eval-data",
                                              held_out,
                                              "--budget",
                                              kBudget,
                                              "--train-batch-size",
                                              "4",
                                              "--num-train-epochs",
                                              epochs_,
                                              "--learning-rate",
                                              "3e-3",
                                              "--warmup-ratio",
                                              "0.05"};
    const auto with_options = [&options](std::vector<std::string> words) {
      words.insert(words.begin() + 1, options.begin(), options.end());
      return words;
    };
    say(fmt::format("1. draw {} receipts and forms, a tenth held out", pages_));
    do_it({"synth", "--output", (directory_ / "pages").string(), "--count", pages_, "--seed", "7"});
    say("2. check them, and plan the run: what will it need?");
    do_it({"check", "--model", kModel, "--data", train_pages});
    do_it(with_options({"plan"}));
    say(fmt::format("3. train from scratch inside {}", kBudget));
    do_it(with_options(
        {"train", "--output-dir", run, "--overwrite-output-dir", "--eval-steps", "100000", "--save-steps", "0"}));
    say("4. label held-out pages and draw what was found");
    do_it({"predict", "--model", run, "--data", held_out, "--output", (directory_ / "predictions.jsonl").string(),
           "--draw", (directory_ / "pictures").string(), "--draw-limit", "5"});
    say("5. draw the whole run as one HTML file");
    do_it({"report", run});
    if (exit_code_ == 0) say_what_is_there();
    return exit_code_;
  }

 private:
  static constexpr const char *kModel = "layoutlmv3-tiny", *kBudget = "128MiB";

  void say(const std::string& text) const {
    if (exit_code_ == 0 && !invocation_.json) print_line("\n== " + text);
  }

  // Does nothing if an earlier command has failed.
  void do_it(std::vector<std::string> words) {
    if (exit_code_ != 0) return;
    if (invocation_.json) words.push_back("--json");
    if (invocation_.threads > 0) words.insert(words.end(), {"--threads", std::to_string(invocation_.threads)});
    exit_code_ = run_in_foreground("/proc/self/exe", words);
  }

  void say_what_is_there() const {
    const fs::path report = directory_ / "run/report.html", pictures = directory_ / "pictures";
    std::vector<fs::path> drawn;
    for (const fs::directory_entry& entry : fs::directory_iterator(pictures)) {
      if (entry.path().extension() == ".png") drawn.push_back(entry.path());
    }
    const std::string picture = drawn.empty() ? std::string() : std::ranges::min(drawn).string();
    if (invocation_.json) return print_json({{"picture", picture}, {"report", report.string()}});
    print_line("");
    if (!picture.empty()) print_line(fmt::format("A page with its predicted fields: {}", picture));
    print_line(
        fmt::format("The whole story of the run:       {}\n"
                    "\n"
                    "Next, your own data (JSONL, one page per line: image, words, boxes, labels):\n"
                    "  plimsoll check --model ./layoutlmv3-base --data pages.jsonl\n"
                    "  plimsoll train --model ./layoutlmv3-base --data pages.jsonl --output-dir run --budget 4GiB",
                    report.string()));
  }

  const Invocation& invocation_;
  fs::path directory_;
  std::string pages_, epochs_;
  int exit_code_ = 0;
};

}  // namespace

void add_demo(CLI::App& app, Invocation& invocation) {
  Command* command = add_command(app, invocation, "demo",
                                 "Draw receipts, plan, train a small model inside a budget, and draw what it found");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("--output-dir", options->output_dir, "Directory for the pages, the run and the pictures")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("--short", options->is_short, "Run a smaller demo: 60 pages, seconds instead of minutes");
  command->footer(
      "Runs the commands synth, check, plan, train, predict and report, one after the other, as you would\n"
      "type them. A directory of an earlier demo is written over; its finished run moves to earlier-N.");
  command->callback([&invocation, options] {
    invocation.action = [&invocation, options] {
      make_directory_of(options->output_dir, "--output-dir", "demo");
      invocation.exit_code = static_cast<ExitCode>(Demo(invocation, *options).run());
    };
  });
}

}  // namespace plimsoll
