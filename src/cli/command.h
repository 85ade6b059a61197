// What commands share: a place to register, output in text or JSON, the common options.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command_line.h"
#include "ranks/communicator.h"

namespace plimsoll {

// One invocation. A command registers its options and, when chosen, sets `action`.
struct Invocation {
  bool json = false;
  int threads = 0;  // 0: all cores that this process may use
  std::function<void()> action;
  std::deque<Command> commands;  // all commands, whichever is chosen
  // The exit code of a command that ran to its end: kData after `check` found errors.
  mutable ExitCode exit_code = ExitCode::kDone;
  std::unique_ptr<Communicator> ranks{};  // the other processes of a run that has several

  bool is_first() const { return ranks == nullptr || ranks->rank() == 0; }
};

// Adds a subcommand with --json, --threads and --config. Options added next are listed under the heading that
// `command->heading(…)` names; until then, under the command's own name.
Command* add_command(CLI::App& app, Invocation& invocation, const std::string& name, const std::string& description);

// Prints to standard output, unless that is the output file; adds a line feed.
void print_line(const std::string& text);
void print_json(const nlohmann::json& object);
// Return a problem's five fields, and those of an error with its exit code.
nlohmann::json problem_json(const Problem& problem);
nlohmann::json error_json(ExitCode exit_code, const Problem& problem);
// Does the same with what a kind of error knows besides: the smallest budget of one that is too small.
nlohmann::json error_json(const Error& error);
// Does the same as print_line for text that has its own line feeds.
void print_text(const std::string& text);
// From now on nothing is printed on standard output, because another rank prints it.
void silence();

// An option that names one output file. "-" is standard output; the command's messages then go to standard error.
Option* add_output_file(Command* command, const std::string& name, std::string& path, const std::string& description);

void add_demo(CLI::App& app, Invocation& invocation);
void add_synth(CLI::App& app, Invocation& invocation);
void add_check(CLI::App& app, Invocation& invocation);
void add_ocr(CLI::App& app, Invocation& invocation);
void add_plan(CLI::App& app, Invocation& invocation);
void add_train(CLI::App& app, Invocation& invocation);
void add_eval(CLI::App& app, Invocation& invocation);
void add_generate(CLI::App& app, Invocation& invocation);
void add_serve(CLI::App& app, Invocation& invocation);
void add_predict(CLI::App& app, Invocation& invocation);
void add_grad(CLI::App& app, Invocation& invocation);
void add_replay(CLI::App& app, Invocation& invocation);
void add_calibrate(CLI::App& app, Invocation& invocation);
void add_init(CLI::App& app, Invocation& invocation);
void add_compare(CLI::App& app, Invocation& invocation);
void add_trim(CLI::App& app, Invocation& invocation);
void add_prune(CLI::App& app, Invocation& invocation);
void add_quantize(CLI::App& app, Invocation& invocation);
void add_merge(CLI::App& app, Invocation& invocation);
void add_merge_parts(CLI::App& app, Invocation& invocation);
void add_bench_step(CLI::App& app, Invocation& invocation);
void add_report(CLI::App& app, Invocation& invocation);
void add_convert(CLI::App& app, Invocation& invocation);
void add_doctor(CLI::App& app, Invocation& invocation);

}  // namespace plimsoll
