#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/nearest.h"

namespace plimsoll {
namespace {

// Names that people bring along from elsewhere.
constexpr std::array<std::pair<const char*, const char*>, 18> kElsewhere = {{
    {"--lr", "--learning-rate"},
    {"--epochs", "--num-train-epochs"},
    {"--batch-size", "--train-batch-size"},
    {"--per-gpu-train-batch-size", "--per-device-train-batch-size"},
    {"--model-name-or-path", "--model"},
    {"--tokenizer-name", "--tokenizer"},
    {"--train-file", "--data"},
    {"--test-file", "--data"},
    {"--dataset", "--data"},
    {"--validation-file", "--eval-data"},
    {"--memory", "--budget"},
    {"--memory-budget", "--budget"},
    {"--steps", "--max-steps"},
    {"--scheduler", "--lr-scheduler-type"},
    {"--resume", "--resume-from-checkpoint"},
    {"--max-seq-length", "--max-length"},
    {"--output", "--output-dir"},
    {"--output-dir", "--output"},
}};
// What casts a whole model, master weights and all, elsewhere.
constexpr std::array<const char*, 6> kWholeModelCasts = {"--half",      "--dtype",     "--torch-dtype",
                                                         "--pure-bf16", "--pure-fp16", "--fp16-full-train"};

template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

UsageError bad_value(const CLI::Option* option, const std::string& found, std::string allowed) {
  return UsageError({.what = "an option's value cannot be used",
                     .where = option->get_name(),
                     .found = fmt::format("'{}'", found),
                     .allowed = std::move(allowed)});
}

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

}  // namespace

CLI::Option* whole_number(CLI::Option* option, std::int64_t low, std::int64_t high) {
  return option->check([option, low, high](const std::string& text) {
    std::int64_t value = 0;
    if (parse_number(text, value) && value >= low && value <= high) return std::string();
    throw bad_value(option, text,
                    high == INT64_MAX ? fmt::format("a whole number, {} or more", low)
                                      : fmt::format("a whole number from {} to {}", low, high));
  });
}

CLI::Option* number(CLI::Option* option, double low, double high, bool open) {
  return option->check([option, low, high, open](const std::string& text) {
    double value = 0;
    // The comparisons refuse NaN too.
    if (parse_number(text, value) && (open ? value > low : value >= low) && value <= high) return std::string();
    throw bad_value(
        option, text,
        fmt::format("a number {} {}{}",
                    open           ? "above"
                    : high < 1e300 ? "from"
                                   : "not below",
                    low,
                    high < 1e300 ? fmt::format("{} {}", open ? ", up to" : " to", high) : std::string(", finite")));
  });
}

CLI::Option* one_of(CLI::Option* option, std::vector<std::string> names) {
  return option->check([option, names = std::move(names)](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    throw bad_value(option, text, fmt::format("{}", fmt::join(names, ", ")));
  });
}

Problem unknown_option_problem(const CLI::App& command, const std::string& given, const std::string& where) {
  const std::vector<std::string> names = long_names(command);
  std::string meant;
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (given == elsewhere && std::find(names.begin(), names.end(), here) != names.end()) meant = here;
  }
  if (meant.empty()) meant = nearest(given, names);
  Problem problem{.what = "no such option", .where = where, .found = given};
  problem.allowed = fmt::format("the options that plimsoll {} --help lists", command.get_name());
  problem.remedy = meant.empty() ? "leave it out, or look for its name there" : fmt::format("did you mean {}?", meant);
  const std::string name = given.substr(0, given.find('='));
  if (std::find(kWholeModelCasts.begin(), kWholeModelCasts.end(), name) != kWholeModelCasts.end()) {
    problem.what = "the whole model, its master weights too, cannot be cast to half precision for training";
    problem.remedy =
        "pass --bf16: activations and products are in bfloat16, and each weight keeps its F32 value. Without it AdamW "
        "stands still: a step of less than 1/256 of a weight (bfloat16; 1/2048 in half precision) rounds to nothing, "
        "and "
        "squared gradients below 6e-8 become 0 in half precision";
  }
  return problem;
}

void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = nullptr;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (command == nullptr && argument.starts_with("-")) {
      if (argument == "--config") ++i;
      if (argument == "--help" || argument == "-h" || argument == "--version") return;
      if (argument == "--config" || argument.starts_with("--config=")) continue;
      throw UsageError({.what = "an option before the command",
                        .where = "command line",
                        .found = argument,
                        .allowed = "plimsoll COMMAND --option value …",
                        .remedy = "name the command first; plimsoll --help lists them"});
    }
    if (command == nullptr) {
      command = find_command(app, argument);
      if (command != nullptr) continue;
      const std::vector<std::string> names = command_names(app);
      const std::string meant = nearest(argument, names);
      throw UsageError({.what = "no such command",
                        .where = "command line",
                        .found = argument,
                        .allowed = fmt::format("{}", fmt::join(names, ", ")),
                        .remedy = meant.empty() ? "plimsoll --help tells what each does"
                                                : fmt::format("did you mean plimsoll {}?", meant)});
    }
    if (!argument.starts_with("--") || argument.size() == 2) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (name == "--version") continue;
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) throw UsageError(unknown_option_problem(*command, name, "command line"));
    const bool takes_value = argument == name && option->get_items_expected_min() > 0;
    if (takes_value && (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))) {
      throw UsageError({.what = "an option has no value",
                        .where = name,
                        .found = i + 1 == arguments.size() ? "nothing after it" : arguments[i + 1],
                        .allowed = fmt::format("{} VALUE", name),
                        .remedy = "write the value after the option"});
    }
    const bool empty = argument.size() == name.size() + 1 || (takes_value && arguments[i + 1].empty());
    if (empty) {
      // Mostly a variable of a script that is not set: not the same as an option left out.
      throw UsageError({.what = "an option's value is empty",
                        .where = name,
                        .found = "''",
                        .allowed = "a value, or no such option",
                        .remedy = fmt::format("give {} a value or leave it out", name)});
    }
  }
  if (command != nullptr) return;
  throw UsageError({.what = "no command given",
                    .where = "command line",
                    .allowed = fmt::format("{}", fmt::join(command_names(app), ", ")),
                    .remedy = "plimsoll --help tells what each does, and shows a first run"});
}

Problem usage_problem(const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::string text = error.what();
  const std::string kind = error.get_name();
  const std::string command = arguments.empty() ? std::string() : arguments.front();
  Problem problem{.what = text, .where = "command line", .remedy = "plimsoll COMMAND --help lists the options"};
  const auto option_at = [&text](std::size_t begin) {
    return text.substr(begin, text.find_first_of(": =", begin) - begin);
  };
  if (kind == "RequiredError") {
    problem.what = "an option that the command needs is missing";
    problem.where = option_at(0);
    problem.remedy = fmt::format("give {}; --help tells what it is", problem.where);
  } else if (kind == "ArgumentMismatch") {
    problem.where = option_at(0);
    const bool twice = text.find("At Most") != std::string::npos;
    problem.what = twice ? "an option is given more than once" : "an option has no value";
    problem.allowed = twice ? "each option once" : fmt::format("{} VALUE", problem.where);
    problem.remedy = twice ? "leave all but one out" : "write the value after the option";
  } else if (text.find("not expected") != std::string::npos) {  // its kind is the command's name
    problem.what = "words that belong to no option";
    problem.found = text.substr(text.find(": ") == std::string::npos ? 0 : text.find(": ") + 2);
    problem.allowed = "--option value";
    problem.remedy = "name the option that they are meant for; put values with spaces in quotes";
  } else if (kind == "ConversionError") {
    const std::size_t begin = text.find("--");
    problem.what = "an option's value cannot be used";
    if (begin != std::string::npos) problem.where = option_at(begin);
    const std::size_t equals = text.find(" = ");
    if (equals != std::string::npos) problem.found = fmt::format("'{}'", text.substr(equals + 3));
    problem.allowed = "a value of the kind that --help names";
  } else if (kind == "FileError") {
    problem.what = "the config file cannot be read";
    problem.where = "--config";
    problem.found = text;
    problem.allowed = R"(a JSON object ({"learning_rate": 5e-5}) or TOML (learning_rate = 5e-5))";
    problem.remedy = "check the path and its permissions";
  } else if (kind == "ConfigError") {
    problem.what = "the config file cannot be used";
    problem.where = "--config";
    problem.found = text;
  }
  return problem;
}

}  // namespace plimsoll
