#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/nearest.h"
#include "cli/elsewhere.h"
#include "cli/usage.h"

namespace plimsoll {
namespace {

// Other programs use these to cast a whole model, including master weights.
constexpr std::array<const char*, 6> kWholeModelCasts = {"--half",      "--dtype",     "--torch-dtype",
                                                         "--pure-bf16", "--pure-fp16", "--fp16-full-train"};

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool has_positionals(const CLI::App& command) {
  return !command.get_options([](const CLI::Option* each) { return !each->nonpositional(); }).empty();
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

OptionValues option_values(const CLI::Option& option) {
  // CLI11 looks validators up in options that may change.
  auto& with_validators = const_cast<CLI::Option&>(option);
  for (const char* kind : {kIntOption, kFloatOption, kChoiceOption}) {
    try {
      const std::string said = with_validators.get_validator(kind)->get_description();
      if (kind != std::string_view(kChoiceOption)) return {.kind = kind, .range = said};
      return {.kind = kind, .choices = names_in(said)};
    } catch (const CLI::OptionNotFound&) {  // it has no such validator
    }
  }
  return {};
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_min() == 0; }

std::string type_word(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::vector<std::string> without_elsewhere_options(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const CLI::App* const command = find_command(app, argument);
    if (command == nullptr) continue;
    return without_elsewhere(arguments, command->get_name(), [command](const std::string& name) {
      return name == "--help" || command->get_option_no_throw(name) != nullptr;
    });
  }
  return arguments;
}

std::vector<std::string> join_flag_values(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  const CLI::App* command = nullptr;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    joined.push_back(arguments[i]);
    if (command == nullptr) {
      if (arguments[i] == "--config" && i + 1 < arguments.size()) joined.push_back(arguments[++i]);
      command = find_command(app, arguments[i]);
      continue;
    }
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const CLI::Option* option =
        argument.starts_with("--") ? command->get_option_no_throw(argument.substr(0, equals)) : nullptr;
    if (option == nullptr || argument == "--help") continue;
    if (!is_flag(*option)) {
      // The next argument is this option's value, not a flag's, whatever it is.
      if (equals == std::string::npos && i + 1 < arguments.size()) joined.push_back(arguments[++i]);
      continue;
    }
    const bool apart = equals == std::string::npos;
    if (apart && i + 1 == arguments.size()) continue;
    const std::optional<bool> truth = truth_of(apart ? arguments[i + 1] : argument.substr(equals + 1));
    if (!truth) continue;
    joined.back() = argument.substr(0, equals) + (*truth ? "=true" : "=false");
    if (apart) ++i;
  }
  return joined;
}

namespace {

// Returns the first of `options`, a list separated by spaces, that is among `names`.
std::string first_of(std::string_view options, const std::vector<std::string>& names) {
  while (!options.empty()) {
    const std::size_t end = std::min(options.find(' '), options.size());
    const std::string name(options.substr(0, end));
    if (std::ranges::find(names, name) != names.end()) return name;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return {};
}

std::string remedy_for_unknown(const CLI::App& command, const std::string& given) {
  const std::vector<std::string> names = long_names(command);
  const ElsewhereOption* const known = find_elsewhere(given);
  if (known != nullptr) {
    if (const std::string here = first_of(known->here, names); !here.empty())
      return fmt::format("did you mean {}?", here);
  }
  std::vector<std::string> owners;
  for (const CLI::App* other : command.get_parent() == nullptr
                                   ? std::vector<const CLI::App*>()
                                   : command.get_parent()->get_subcommands([](const CLI::App*) { return true; })) {
    if (other->get_option_no_throw(given) != nullptr) owners.push_back("plimsoll " + other->get_name());
  }
  if (!owners.empty()) {
    return fmt::format("omit it: it is an option of {}, not of plimsoll {}", fmt::join(owners, ", "),
                       command.get_name());
  }
  if (known != nullptr && !known->note.empty()) return std::string(known->note);
  const std::string meant = known == nullptr ? misspelt_option(given, names) : std::string();
  if (!meant.empty()) return fmt::format("did you mean {}?", meant);
  return fmt::format("Plimsoll has no equivalent; see plimsoll {} --help", command.get_name());
}

}  // namespace

Problem unknown_option_problem(const CLI::App& command, const std::string& given, const std::string& where) {
  Problem problem{.what = fmt::format("unknown option {}", given), .where = where, .found = given};
  problem.allowed = fmt::format("an option listed by plimsoll {} --help", command.get_name());
  problem.remedy = remedy_for_unknown(command, given);
  const std::string name = given.substr(0, given.find('='));
  if (std::find(kWholeModelCasts.begin(), kWholeModelCasts.end(), name) != kWholeModelCasts.end()) {
    problem.what = "training in pure half precision, master weights included, is not possible";
    problem.remedy =
        "pass --bf16: activations and matrix products are in bfloat16, and each weight keeps its F32 value. With "
        "weights in half precision AdamW makes no progress: a step of less than 1/256 of a weight (bfloat16; 1/2048 in "
        "half precision) is rounded away, and squared gradients below 6e-8 become 0 in half precision";
  }
  return problem;
}

namespace {

UsageError unexpected_argument(const std::string& argument, const std::string& after, bool after_flag) {
  const std::string list = after.empty() || after_flag ? "" : "; several values are joined with commas";
  return UsageError({.what = after.empty() ? fmt::format("unexpected argument '{}'", argument)
                                           : fmt::format("unexpected argument '{}' after {}", argument, after),
                     .where = "command line",
                     .found = argument,
                     .allowed = after_flag ? fmt::format("{0}, {0} True or {0} False", after) : "--option value",
                     .remedy = "omit it, or put its option in front of it; a value with spaces needs quotes" + list});
}

// Options have two dashes here: "-max_steps", or "-o".
UsageError single_dash(const CLI::App& command, const std::string& argument) {
  std::string name = "-" + argument.substr(0, argument.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  const bool is_known = command.get_option_no_throw(name) != nullptr;
  Problem problem = unknown_option_problem(command, argument, "command line");
  problem.remedy = is_known ? fmt::format("write two dashes: {}", name)
                            : fmt::format("options have long names: see plimsoll {} --help", command.get_name());
  return UsageError(std::move(problem));
}

}  // namespace

void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = nullptr;
  std::string after;  // the last option, or nothing
  bool after_flag = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (command == nullptr && argument.starts_with("-")) {
      if (argument == "--config") ++i;
      if (argument == "--help" || argument == "-h" || argument == "--version" || argument == "--options") return;
      if (argument == "--config" || argument.starts_with("--config=")) continue;
      throw UsageError({.what = "an option is given before the command",
                        .where = "command line",
                        .found = argument,
                        .allowed = "plimsoll COMMAND --option value …",
                        .remedy = "write the command first; plimsoll --help lists them"});
    }
    if (command == nullptr) {
      command = find_command(app, argument);
      if (command != nullptr) continue;
      const std::vector<std::string> names = command_names(app);
      const std::string meant = nearest(argument, names);
      throw UsageError({.what = "unknown command",
                        .where = "command line",
                        .found = argument,
                        .allowed = fmt::format("{}", fmt::join(names, ", ")),
                        .remedy = meant.empty() ? "plimsoll --help describes the commands"
                                                : fmt::format("did you mean plimsoll {}?", meant)});
    }
    if (!argument.starts_with("-") && !has_positionals(*command)) {
      throw unexpected_argument(argument, after, after_flag);
    }
    if (argument.size() > 1 && argument[0] == '-' && argument[1] != '-' && argument != "-h") {
      throw single_dash(*command, argument);
    }
    if (!argument.starts_with("--") || argument.size() == 2) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (name == "--version") continue;
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) throw UsageError(unknown_option_problem(*command, name, "command line"));
    after = name;
    after_flag = is_flag(*option);
    if (after_flag && argument.size() > name.size() + 1 && !truth_of(argument.substr(name.size() + 1))) {
      throw bad_value(name, argument.substr(name.size() + 1), "True or False (yes, no, 1, 0)");
    }
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
      // This is usually an unset variable of a script, and not the same as leaving the option out.
      throw UsageError({.what = "an option has an empty value",
                        .where = name,
                        .found = "''",
                        .allowed = "a nonempty value",
                        .remedy = fmt::format("give {} a value or omit it", name)});
    }
    if (takes_value) ++i;
    if (option->get_items_expected_max() > 1) {  // --data a.jsonl b.jsonl
      while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-")) ++i;
    }
  }
  if (command != nullptr) return;
  throw UsageError({.what = "no command given",
                    .where = "command line",
                    .allowed = fmt::format("{}", fmt::join(command_names(app), ", ")),
                    .remedy = "plimsoll --help describes the commands and a first run"});
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
    problem.what = "a required option is missing";
    problem.where = option_at(0);
    problem.remedy = fmt::format("give {}; --help lists the options", problem.where);
  } else if (kind == "ArgumentMismatch") {
    problem.where = option_at(0);
    const bool twice = text.find("At Most") != std::string::npos;
    problem.what = twice ? "an option is given more than once" : "an option has no value";
    problem.allowed = twice ? "each option once" : fmt::format("{} VALUE", problem.where);
    problem.remedy = twice ? "keep one of them" : "write the value after the option";
  } else if (text.find("not expected") != std::string::npos) {  // its kind is the command's name
    problem.what = "unexpected argument";
    problem.found = text.substr(text.find(": ") == std::string::npos ? 0 : text.find(": ") + 2);
    problem.allowed = "--option value";
    problem.remedy = "omit it, or put its option in front of it; a value with spaces needs quotes";
  } else if (kind == "ConversionError") {
    const std::size_t begin = text.find("--");
    problem.what = "an option has an invalid value";
    if (begin != std::string::npos) problem.where = option_at(begin);
    const std::size_t equals = text.find(" = ");
    if (equals != std::string::npos) problem.found = fmt::format("'{}'", text.substr(equals + 3));
    problem.allowed = "a value of the type that --help names";
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
