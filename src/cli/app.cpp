#include "cli/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/config_file.h"

namespace plimsoll {
namespace {

constexpr const char* kDescription =
    "Plimsoll fine-tunes LayoutLMv3 inside a memory budget that you set: it plans every byte of a step before it\n"
    "begins, and says at second 0 what does not fit, or trains to the end.\n";

constexpr const char* kFooter =
    "A first run:\n"
    "  plimsoll synth --output receipts --count 300          draw receipts to learn from\n"
    "  plimsoll check --model layoutlmv3-tiny --data receipts/train.jsonl\n"
    "  plimsoll plan  --model layoutlmv3-tiny --data receipts/train.jsonl --budget 1GiB\n"
    "  plimsoll train --model layoutlmv3-tiny --data receipts/train.jsonl --eval-data receipts/validation.jsonl \\\n"
    "                 --output-dir run --budget 1GiB --num-train-epochs 10 --learning-rate 1e-3\n"
    "  plimsoll predict --model run --data receipts/validation.jsonl --output out.jsonl --draw pictures\n"
    "\n"
    "Exit codes: 0 done, 2 usage, 3 bad data or file, 4 does not fit the budget, 5 device or environment,\n"
    "6 diverged, 130 interrupted after a clean checkpoint. `plimsoll COMMAND --help` tells more.";

// "--train_batch_size" is as good as "--train-batch-size".
std::string with_dashes(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

// In CLI11's order, the last argument first. "--config FILE" goes before the command.
std::vector<std::string> ordered_arguments(int argc, const char* const* argv) {
  std::vector<std::string> config, others;
  for (int i = 1; i < argc; ++i) {
    std::string argument = with_dashes(argv[i]);
    const bool named = argument == "--config";
    if (named || argument.starts_with("--config=")) {
      config.push_back(std::move(argument));
      if (named && i + 1 < argc) config.emplace_back(argv[++i]);
    } else {
      others.push_back(std::move(argument));
    }
  }
  config.insert(config.end(), others.begin(), others.end());
  std::reverse(config.begin(), config.end());
  return config;
}

int report(const Invocation& invocation, ExitCode code, const Problem& problem) {
  fmt::print(stderr, "error: {}\n", format_problem(problem));
  if (invocation.json) {
    print_json({{"error",
                 {{"exit_code", static_cast<int>(code)},
                  {"what", problem.what},
                  {"where", problem.where},
                  {"found", problem.found},
                  {"allowed", problem.allowed},
                  {"remedy", problem.remedy}}}});
  }
  return static_cast<int>(code);
}

}  // namespace

CLI::App* add_command(CLI::App& app, Invocation& invocation, const std::string& name, const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", invocation.json, "Print one JSON object instead of text");
  command->add_option("--threads", invocation.threads, "Compute threads (0: every core that may be used)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  // For --help: run_cli hands the file to `app`, because CLI11 reads config files at the top only.
  command->add_option("--config", "Read options from this file (JSON or TOML)")->type_name("FILE");
  return command;
}

void add_footer(CLI::App* command, const std::string& text) { command->footer("\n" + text); }

void print_line(const std::string& text) {
  fmt::print(stdout, "{}\n", text);
  std::fflush(stdout);
}

void print_json(const nlohmann::json& object) { print_line(object.dump(2)); }

int run_cli(int argc, const char* const* argv) {
  // A pipe that closes early is an error to report, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  Invocation invocation;
  CLI::App app(kDescription, "plimsoll");
  app.footer(std::string("\n") + kFooter);
  app.set_version_flag("--version", "plimsoll " PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(44);
  add_synth(app, invocation);
  add_check(app, invocation);
  add_plan(app, invocation);
  add_train(app, invocation);
  add_eval(app, invocation);
  add_predict(app, invocation);
  add_grad(app, invocation);
  add_init(app, invocation);
  add_calibrate(app, invocation);
  add_bench_step(app, invocation);

  app.set_config("--config")->group("");
  app.config_formatter(make_config_reader(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  try {
    app.parse(ordered_arguments(argc, argv));
    invocation.action();
    return static_cast<int>(invocation.exit_code);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    app.exit(error);
    return static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    return report(invocation, error.exit_code(), error.problem());
  } catch (const std::bad_alloc&) {
    return report(invocation, ExitCode::kEnvironment,
                  {.what = "the machine has no memory left for this process",
                   .remedy = "close other programs, or pass a smaller --budget"});
  } catch (const std::exception& error) {
    return report(invocation, ExitCode::kInternal,
                  {.what = fmt::format("unexpected error: {}", error.what()),
                   .remedy = "this is a bug in Plimsoll: please report it with the command that led here"});
  }
}

}  // namespace plimsoll
