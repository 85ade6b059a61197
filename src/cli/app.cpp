#include "cli/app.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/manual.h"
#include "cli/option_table.h"
#include "cli/outputs.h"
#include "cli/rank_options.h"
#include "cli/usage.h"
#include "fit/fit.h"
#include "formats/json.h"
#include "ocr/pdf.h"
#include "ocr/text_reader.h"

namespace plimsoll {
namespace {

constexpr const char* kDescription =
    "Plimsoll fine-tunes document transformers inside a memory budget that you set: it plans every byte of a step "
    "before it\n"
    "begins, and says at second 0 what does not fit, or trains to the end.";

constexpr const char* kFooter =
    "A first run:\n"
    "  plimsoll synth --output receipts --count 300          draw receipts to learn from\n"
    "  plimsoll check --model layoutlmv3-tiny --data receipts/train.jsonl\n"
    "  plimsoll plan  --model layoutlmv3-tiny --data receipts/train.jsonl --budget 1GiB\n"
    "  plimsoll train --model layoutlmv3-tiny --data receipts/train.jsonl --eval-data receipts/validation.jsonl \\\n"
    "                 --output-dir run --budget 1GiB --num-train-epochs 10 --learning-rate 1e-3\n"
    "  plimsoll predict --model run --data receipts/validation.jsonl --output out.jsonl --draw pictures\n"
    "  plimsoll predict --model run --input receipts/images/00002.png     a scan in, its fields out\n"
    "\n"
    "To diagnose a failure, in Plimsoll or PyTorch: plimsoll doctor; plimsoll doctor train.log\n"
    "\n"
    "Exit codes: 0 done, 2 usage, 3 bad data or file, 4 does not fit the budget, 5 device or environment,\n"
    "6 NaN or infinity, 128 + N ended by signal N after saving a checkpoint (130: Ctrl-C), 1 a bug in Plimsoll.\n"
    "Errors go to standard error; with --json also as a JSON object to standard output.\n"
    "See `plimsoll COMMAND --help` for details.";

// The first line is only the version, because other programs read it.
std::string version_text() {
#ifdef PLIMSOLL_HAS_CUDA
  constexpr const char* kCuda = "built in";
#else
  constexpr const char* kCuda = "not built in";
#endif
  return fmt::format("plimsoll {}\nCUDA: {}\nOCR: {}\nPDF: {}", PLIMSOLL_VERSION, kCuda, describe_text_reader(),
                     describe_pdf_reader());
}

// "--train_batch_size" is as good as "--train-batch-size".
std::string with_dashes(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

std::vector<std::string> dashed_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(with_dashes(argv[i]));
  // Accepts "plimsoll help" and "plimsoll help train", like other programs.
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

// Returns the arguments in CLI11's order, the last one first. "--config FILE" goes before the command.
std::vector<std::string> ordered_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> config, others;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool named = argument == "--config";
    if (named || argument.starts_with("--config=")) {
      config.push_back(argument);
      if (named && i + 1 < arguments.size()) config.push_back(arguments[++i]);
    } else {
      others.push_back(argument);
    }
  }
  config.insert(config.end(), others.begin(), others.end());
  std::reverse(config.begin(), config.end());
  return config;
}

// CLI11 opens the file of --config by itself, and would wait for a writer if it is a pipe.
void check_config_file(const std::vector<std::string>& arguments) {
  constexpr std::string_view kOption = "--config";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool joined = arguments[i].starts_with("--config=");
    const bool apart = arguments[i] == kOption && i + 1 < arguments.size();
    if (!joined && !apart) continue;
    const std::string path = joined ? arguments[i].substr(kOption.size() + 1) : arguments[i + 1];
    add_common_input({std::string(kOption), path});
    if (!is_special_file(path)) continue;
    throw UsageError({.what = "not a regular file",
                      .where = std::string(kOption),
                      .found = path,
                      .allowed = "a JSON or TOML file",
                      .remedy = "write the options to a file"});
  }
}

// Set if an output file's option names standard output: nothing else may then be written there.
bool output_is_standard = false;
// Set if another rank prints.
bool is_silent = false;

// How an error is printed: as text, and for --json also as an object; `train` prints it as its last event, in one line.
struct ErrorForm {
  bool json = false, event = false;
};

// `more` has members of the error's object that this kind of error has besides the usual ones.
int report(ErrorForm form, ExitCode code, const Problem& problem,
           const nlohmann::json& more = nlohmann::json::object()) {
  // Does not use print_line, or a print that throws, which may be what failed.
  const auto print = [](std::FILE* file, const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), file);
    std::fflush(file);
  };
  print(stderr, fmt::format("error: {}\n", format_problem(problem)));
  if (form.json && !is_silent) {
    nlohmann::json error = error_json(code, problem);
    error.update(more);
    nlohmann::ordered_json object;
    if (form.event) object["event"] = "error";
    object["error"] = error;
    print(output_is_standard ? stderr : stdout, json_text(object, form.event ? -1 : 2) + "\n");
  }
  return static_cast<int>(code);
}

}  // namespace

Command* add_command(CLI::App& app, Invocation& invocation, const std::string& name, const std::string& description) {
  CLI::App* const parsed = app.add_subcommand(name, description);
  parsed->set_help_flag("-h,--help", "Print this help")->group("General");
  Command* const command = &invocation.commands.emplace_back(*parsed);
  command->heading("General");
  command->add_flag("--json", invocation.json,
                    "Print JSON instead of text: one object; train prints one per line while it runs");
  whole_number(command->add_option("--threads", invocation.threads, "Compute threads (0: all available cores)"), 0,
               1024)
      ->capture_default_str();
  // Only for --help: run_cli passes the file to `app`, because CLI11 reads config files only at the top level.
  command->add_option("--config", "Read options from this JSON or TOML file; the command line overrides it")
      ->type_name("FILE");
  command->heading(name);
  return command;
}

Option* add_output_file(Command* command, const std::string& name, std::string& path, const std::string& description) {
  return command->add_option(name, path, description + "; - for standard output")
      ->type_name("FILE")
      ->transform([](const std::string& given) -> std::string {
        const std::string file = given == "-" ? "/dev/stdout" : given;
        output_is_standard = output_is_standard || file == "/dev/stdout";
        return file;
      });
}

void print_line(const std::string& text) { print_text(text + "\n"); }

void silence() { is_silent = true; }

void print_text(const std::string& text) {
  if (is_silent) return;
  std::FILE* const stream = output_is_standard ? stderr : stdout;
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return;
  const int error = errno;
  const char* const name = output_is_standard ? "standard error" : "standard output";
  throw EnvironmentError({.what = fmt::format("cannot write to {}", name),
                          .where = name,
                          .found = std::strerror(error),
                          .remedy = error == EPIPE ? "the reading program ended early; let it read all output"
                                                   : "free some disk space, or send the output elsewhere"});
}

nlohmann::json problem_json(const Problem& problem) {
  return {{"what", problem.what},
          {"where", problem.where},
          {"found", problem.found},
          {"allowed", problem.allowed},
          {"remedy", problem.remedy}};
}

nlohmann::json error_json(ExitCode exit_code, const Problem& problem) {
  nlohmann::json error = problem_json(problem);
  error["exit_code"] = static_cast<int>(exit_code);
  return error;
}

nlohmann::json error_json(const Error& error) {
  nlohmann::json object = error_json(error.exit_code(), error.problem());
  if (const auto* const budget = dynamic_cast<const BudgetTooSmall*>(&error)) {
    object["smallest_budget_bytes"] = budget->smallest_budget_bytes();
  }
  return object;
}

void print_json(const nlohmann::json& object) { print_line(json_text(object, 2)); }

static int parse_and_run(int argc, const char* const* argv, bool json) {
  std::vector<std::string> arguments = dashed_arguments(argc, argv);
  Invocation invocation;
  CLI::App app(kDescription, "plimsoll");
  app.footer(std::string("\n") + kFooter);
  app.set_version_flag("--version", std::function<std::string()>(version_text),
                       "Print the version, and what is built in");
  app.set_help_flag("-h,--help", "Print this help")->group("General");
  app.get_option("--version")->group("General");
  const auto print_options = [&app] {
    print_line(option_table(app).dump(1));
    throw CLI::Success();
  };
  app.add_flag_callback("--options", print_options, "Print all commands and their options as JSON")->group("General");
  app.require_subcommand(1);
  app.formatter(std::make_shared<Manual>());
  add_demo(app, invocation);
  add_synth(app, invocation);
  add_ocr(app, invocation);
  add_check(app, invocation);
  add_plan(app, invocation);
  add_train(app, invocation);
  add_eval(app, invocation);
  add_predict(app, invocation);
  add_generate(app, invocation);
  add_serve(app, invocation);
  add_grad(app, invocation);
  add_replay(app, invocation);
  add_init(app, invocation);
  add_compare(app, invocation);
  add_trim(app, invocation);
  add_prune(app, invocation);
  add_quantize(app, invocation);
  add_merge(app, invocation);
  add_merge_parts(app, invocation);
  add_report(app, invocation);
  add_convert(app, invocation);
  add_doctor(app, invocation);
  add_calibrate(app, invocation);
  add_bench_step(app, invocation);

  app.set_config("--config")->group("");
  ConfigPlaces places;
  app.config_formatter(make_config_reader(app, places));
  app.allow_config_extras(CLI::config_extras_mode::error);
  const std::size_t command = !arguments.empty() && arguments.front() == "--config" ? 2 : 0;
  const ErrorForm form{.json = json, .event = arguments.size() > command && arguments[command] == "train"};
  // If there are several processes, a message says which one it is from.
  const auto report_rank = [&](ExitCode code, Problem problem, const nlohmann::json& more) {
    if (invocation.ranks != nullptr && !problem.where.starts_with("rank ")) {
      const Communicator& ranks = *invocation.ranks;
      problem.where = fmt::format("rank {} on {}{}{}", ranks.rank(), ranks.host(ranks.rank()),
                                  problem.where.empty() ? "" : ", ", problem.where);
    }
    return report(form, code, problem, more);
  };
  // The other ranks are told, too, unless one of them has reported the same.
  const auto report_here = [&](ExitCode code, const Problem& problem, const nlohmann::json& more) {
    return tell_ranks(invocation, problem, code) ? report_rank(code, problem, more) : static_cast<int>(code);
  };
  const nlohmann::json nothing = nlohmann::json::object();
  try {
    arguments = without_elsewhere_options(app, arguments);
    arguments = join_flag_values(app, arguments);
    check_arguments(app, arguments);
    check_config_file(arguments);
    app.parse(ordered_arguments(arguments));
    invocation.action();
    return static_cast<int>(invocation.exit_code);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(form, ExitCode::kUsage, with_config_place(usage_problem(error, arguments), places, arguments));
  } catch (const RankError& error) {
    // That rank has its own message; the first rank repeats it, because users look at its output.
    const ExitCode code = error.exit_code_of_rank();
    if (invocation.ranks != nullptr) invocation.ranks->fail(error.problem(), code);
    return invocation.is_first() ? report_rank(code, error.problem(), nothing) : static_cast<int>(code);
  } catch (const BudgetTooSmall& error) {
    return report_here(error.exit_code(), error.problem(),
                       nlohmann::json::object({{"smallest_budget_bytes", error.smallest_budget_bytes()}}));
  } catch (const Error& error) {
    return report_here(error.exit_code(), with_config_place(error.problem(), places, arguments), nothing);
  } catch (const std::filesystem::filesystem_error& error) {
    return report_here(ExitCode::kEnvironment,
                       {.what = "a file or directory cannot be accessed",
                        .where = error.path1().string(),
                        .found = error.code().message(),
                        .remedy = "check the path, its permissions and the disk"},
                       nothing);
  } catch (const std::system_error& error) {
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    return report(form, ExitCode::kEnvironment,
                  {.what = thread ? "the system cannot start another thread" : "a system call failed",
                   .found = error.code().message(),
                   .remedy = "raise the limits (ulimit -a, or the container's), or pass --threads 1 and, with loader "
                             "workers, --dataloader-num-workers 0"});
  } catch (const std::bad_alloc&) {
    throw;  // to where nothing is allocated
  } catch (const std::exception& error) {
    return report_here(ExitCode::kInternal,
                       {.what = fmt::format("unexpected error: {}", error.what()),
                        .remedy = "this is a bug in Plimsoll: please report it with the command that caused it"},
                       nothing);
  }
}

int report_no_memory(bool json) {
  // Memory may run out in several threads at once: the first reports it, and the others wait until it has.
  static std::atomic<int> said{0};  // 1: being said, 2: said
  if (int nobody = 0; !said.compare_exchange_strong(nobody, 1)) {
    while (said != 2) std::this_thread::yield();
    return static_cast<int>(ExitCode::kEnvironment);
  }
  const auto print = [](int file, std::string_view text) {
    [[maybe_unused]] const ssize_t written = ::write(file, text.data(), text.size());
  };
  // A smaller budget does not help where addresses run out: code and libraries have more than they use.
  struct rlimit addresses {};
  const bool limited = ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
  print(STDERR_FILENO, "error: out of memory\n");
  print(STDERR_FILENO, limited ? "  found:   a failed allocation, and a limit on addresses (ulimit -v)\n"
                                 "  to do:   raise that limit: ulimit -v unlimited\n"
                               : "  found:   a failed allocation\n"
                                 "  to do:   close other programs, raise the container's limit, or pass a smaller "
                                 "--budget\n");
  static_assert(static_cast<int>(ExitCode::kEnvironment) == 5);  // the text says 5
  if (json) {
    // In one line, which is also train's last event.
    print(STDOUT_FILENO,
          "{\"event\": \"error\", \"error\": {\"exit_code\": 5, \"what\": \"out of memory\", \"where\": \"\", "
          "\"found\": \"a failed allocation\", \"allowed\": \"\", \"remedy\": \"");
    print(STDOUT_FILENO, limited ? "raise the limit on addresses: ulimit -v unlimited\"}}\n"
                                 : "close other programs, raise the container's limit, or pass a smaller "
                                   "--budget\"}}\n");
  }
  said = 2;
  return static_cast<int>(ExitCode::kEnvironment);
}

int run_cli(int argc, const char* const* argv) {
  // A pipe that closes early is an error to report, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that grows beyond `ulimit -f`: write(2) then reports it, and the incomplete file is removed.
  std::signal(SIGXFSZ, SIG_IGN);
  const bool json = wants_json(argc, argv);
  try {
    return parse_and_run(argc, argv, json);
  } catch (const std::bad_alloc&) {  // also one while another error was being reported
    return report_no_memory(json);
  }
}

}  // namespace plimsoll
