#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/lower_case.h"
#include "base/nearest.h"
#include "cli/elsewhere.h"

namespace plimsoll {
namespace {

// What casts a whole model, master weights and all, elsewhere.
constexpr std::array<const char*, 6> kWholeModelCasts = {"--half",      "--dtype",     "--torch-dtype",
                                                         "--pure-bf16", "--pure-fp16", "--fp16-full-train"};

// The names of validators, which say of what kind an option is.
constexpr const char *kInt = "int", *kFloat = "float", *kChoices = "choices";

template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

UsageError bad_value(const CLI::Option* option, const std::string& found, std::string allowed) {
  return UsageError({.what = "an option has an invalid value",
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

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

CLI::Option* whole_number(CLI::Option* option, std::int64_t low, std::int64_t high) {
  const std::string range = high == INT64_MAX ? fmt::format("{} or more", low) : fmt::format("{} to {}", low, high);
  return option->check(
      [option, low, high, range](const std::string& text) {
        std::int64_t value = 0;
        if (parse_number(text, value) && value >= low && value <= high) return std::string();
        throw bad_value(option, text, high == INT64_MAX ? "a whole number, " + range : "a whole number from " + range);
      },
      range, kInt);
}

CLI::Option* number(CLI::Option* option, double low, double high, bool open) {
  const std::string range = fmt::format("{}{}{}", open ? "above " : "", low,
                                        high < 1e300 ? fmt::format("{}to {}", open ? ", up " : " ", high)
                                        : open       ? ""
                                                     : " or more");
  return option->check(
      [option, low, high, open](const std::string& text) {
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
      },
      range, kFloat);
}

CLI::Option* one_of(CLI::Option* option, std::vector<std::string> names) {
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  return option->check(
      [option, names = std::move(names)](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        throw bad_value(option, text, fmt::format("{}", fmt::join(names, ", ")));
      },
      list, kChoices);
}

OptionValues option_values(const CLI::Option& option) {
  // CLI11 looks validators up in options that may change.
  auto& with_validators = const_cast<CLI::Option&>(option);
  for (const char* kind : {kInt, kFloat, kChoices}) {
    try {
      const std::string said = with_validators.get_validator(kind)->get_description();
      if (kind != std::string_view(kChoices)) return {.kind = kind, .range = said};
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

std::optional<bool> truth_of(std::string_view word) {
  constexpr std::size_t kLongest = 5;
  if (word.size() > kLongest) return std::nullopt;  // short words are copied without allocating
  const auto is = [lower = lower_case(word)](std::string_view name) { return lower == name; };
  for (const std::string_view name : {"true", "yes", "t", "y", "1"}) {
    if (is(name)) return true;
  }
  for (const std::string_view name : {"false", "no", "f", "n", "0"}) {
    if (is(name)) return false;
  }
  return std::nullopt;
}

bool wants_json(int argc, const char* const* argv) {
  bool wants = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") wants = i + 1 == argc || truth_of(argv[i + 1]).value_or(true);
    if (word.starts_with("--json=")) wants = truth_of(word.substr(word.find('=') + 1)).value_or(true);
  }
  return wants;
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
      // Its value is no flag's, whatever it reads.
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

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  for (std::size_t begin = name.find_first_not_of('-'); begin < name.size();) {
    const std::size_t end = std::min(name.find('-', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string without(const std::string& name, bool (*drops)(char)) {
  std::string kept;
  std::ranges::copy_if(name, std::back_inserter(kept), [drops](char c) { return !drops(c); });
  return kept;
}

// The only one that `fits`; empty: none, or several.
template <typename Fits>
std::string only_one(const std::vector<std::string>& names, const Fits& fits) {
  std::string only;
  for (const std::string& name : names) {
    if (!fits(name)) continue;
    if (!only.empty()) return {};
    only = name;
  }
  return only;
}

}  // namespace

std::string misspelt_option(const std::string& given, const std::vector<std::string>& names) {
  constexpr auto kIsDash = [](char c) { return c == '-'; };
  constexpr auto kIsNoDigit = [](char c) { return c < '0' || c > '9'; };
  // A word that some option has is not misspelt: "save" of --save-steps is not "max".
  std::set<std::string> known;
  for (const std::string& name : names) {
    for (std::string& word : words_of(name)) known.insert(std::move(word));
  }
  for (const ElsewhereOption& option : elsewhere_options()) {
    for (std::string& word : words_of(std::string(option.name))) known.insert(std::move(word));
  }
  const std::vector<std::string> words = words_of(given);
  const auto same_word = [&known](const std::string& word, const std::string& meant) {
    if (word == meant || word + "s" == meant || word == meant + "s") return true;
    if (known.contains(word)) return false;
    if (std::ranges::any_of(meant, [](unsigned char c) { return std::isdigit(c) != 0; })) return false;  // tf16, bf16
    constexpr std::size_t kLongWord = 6;
    return edit_distance(word, meant) <= (meant.size() >= kLongWord ? 2U : 1U);
  };
  const auto is_misspelt = [&](const std::string& name) {
    if (without(given, kIsNoDigit) != without(name, kIsNoDigit)) return false;  // --fp16 is not --bf16 misspelt
    const std::string letters = without(given, kIsDash), meant = without(name, kIsDash);
    if (letters == meant) return true;
    const std::vector<std::string> right = words_of(name);
    if (words.size() == 1 && right.size() > 1) return edit_distance(letters, meant) <= 2;  // --leraningrate
    return words.size() == right.size() && std::ranges::equal(words, right, same_word);
  };
  // A part of one name alone: --gradient-check, --accumulation-steps.
  const auto is_part = [&](const std::string& name) {
    constexpr std::size_t kShortest = 5;
    return given.size() >= kShortest &&
           (name.starts_with(given) || (words.size() > 1 && name.ends_with(given.substr(1))));
  };
  const std::string misspelt = only_one(names, is_misspelt);
  return misspelt.empty() ? only_one(names, is_part) : misspelt;
}

namespace {

// The first of `options`, a list with spaces, that is among `names`.
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
  return UsageError({.what = after.empty() ? fmt::format("unexpected argument '{}'", argument)
                                           : fmt::format("unexpected argument '{}' after {}", argument, after),
                     .where = "command line",
                     .found = argument,
                     .allowed = after_flag ? fmt::format("{0}, {0} True or {0} False", after) : "--option value",
                     .remedy = "omit it, or write the option before it; a value with spaces needs quotes"});
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
    if (!argument.starts_with("--") || argument.size() == 2) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (name == "--version") continue;
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) throw UsageError(unknown_option_problem(*command, name, "command line"));
    after = name;
    after_flag = is_flag(*option);
    if (after_flag && argument.size() > name.size() + 1 && !truth_of(argument.substr(name.size() + 1))) {
      throw bad_value(option, argument.substr(name.size() + 1), "True or False (yes, no, 1, 0)");
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
      // Mostly a variable of a script that is not set: not the same as an option left out.
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
    problem.remedy = fmt::format("give {}; --help explains it", problem.where);
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
    problem.remedy = "omit it, or write the option before it; a value with spaces needs quotes";
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
