#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/lower_case.h"
#include "base/nearest.h"
#include "cli/elsewhere.h"

namespace plimsoll {
namespace {

template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
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

std::vector<std::pair<std::string, double>> numbers_in(const std::string& option, const std::string& text,
                                                       const std::string& example) {
  std::vector<std::pair<std::string, double>> numbers;
  const auto refuse = [&](const std::string& found) {
    throw bad_value(option, found, fmt::format("NAME=NUMBER, such as {}; or a JSON object with numbers", example));
  };
  if (text.starts_with("{")) {
    const auto object = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!object.is_object()) refuse(text);
    for (const auto& [name, value] : object.items()) {
      if (!value.is_number()) refuse(fmt::format("{}: {}", name, value.dump()));
      numbers.emplace_back(name, value.get<double>());
    }
    return numbers;
  }
  for (const std::string& part : names_in(text)) {
    const std::size_t equals = std::min(part.rfind('='), part.size());
    double number = 0;
    if (equals == 0 || equals == part.size() || !parse_number(part.substr(equals + 1), number)) refuse(part);
    numbers.emplace_back(part.substr(0, equals), number);
  }
  return numbers;
}

UsageError bad_value(const std::string& option, const std::string& found, std::string allowed) {
  return UsageError({.what = "an option has an invalid value",
                     .where = option,
                     .found = fmt::format("'{}'", found),
                     .allowed = std::move(allowed),
                     .remedy = "correct the value; --help describes the option"});
}

Option* whole_number(Option* option, std::int64_t low, std::int64_t high) {
  const std::string range = high == INT64_MAX ? fmt::format("{} or more", low) : fmt::format("{} to {}", low, high);
  return option->check(
      [option, low, high, range](const std::string& text) {
        std::int64_t value = 0;
        if (parse_number(text, value) && value >= low && value <= high) return;
        const bool is_long = text.size() > 18 && text.find_first_not_of("0123456789") == std::string::npos;
        throw bad_value(option->name(), text,
                        high != INT64_MAX ? "a whole number from " + range
                        : is_long         ? fmt::format("a whole number from {} to {}", low, high)
                                          : "a whole number, " + range);
      },
      range, kIntOption);
}

Option* number(Option* option, double low, double high, bool open) {
  const std::string range = fmt::format("{}{}{}", open ? "above " : "", low,
                                        high < 1e300 ? fmt::format("{}to {}", open ? ", up " : " ", high)
                                        : open       ? ""
                                                     : " or more");
  return option->check(
      [option, low, high, open](const std::string& text) {
        double value = 0;
        // The comparisons refuse NaN, too.
        if (parse_number(text, value) && (open ? value > low : value >= low) && value <= high) return;
        throw bad_value(
            option->name(), text,
            fmt::format("a number {} {}{}",
                        open           ? "above"
                        : high < 1e300 ? "from"
                                       : "not below",
                        low,
                        high < 1e300 ? fmt::format("{} {}", open ? ", up to" : " to", high) : std::string(", finite")));
      },
      range, kFloatOption);
}

Option* one_of(Option* option, std::vector<std::string> names) {
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  return option->check(
      [option, names = std::move(names)](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return;
        Problem problem = bad_value(option->name(), text, fmt::format("{}", fmt::join(names, ", "))).problem();
        const std::string meant = nearest(lower_case(text), names);
        if (!meant.empty()) problem.remedy = fmt::format("did you mean {}?", meant);
        throw UsageError(std::move(problem));
      },
      list, kChoiceOption);
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

// Returns the only one that `fits`; empty if there is none, or several.
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
  // A word that occurs in some option is not misspelt: "save" in --save-steps is not meant as "max".
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
  // It may be a part of only one name: --gradient-check, --accumulation-steps.
  const auto is_part = [&](const std::string& name) {
    constexpr std::size_t kShortest = 5;
    return given.size() >= kShortest &&
           (name.starts_with(given) || (words.size() > 1 && name.ends_with(given.substr(1))));
  };
  const std::string misspelt = only_one(names, is_misspelt);
  return misspelt.empty() ? only_one(names, is_part) : misspelt;
}

}  // namespace plimsoll
