#include "formats/jinja_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/in_quotes.h"
#include "formats/jinja_text.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Value = JinjaValue;

constexpr std::array<JinjaSignature, 26> kMethods = {{{"strip", "chars"},
                                                      {"lstrip", "chars"},
                                                      {"rstrip", "chars"},
                                                      {"startswith", "sub"},
                                                      {"endswith", "sub"},
                                                      {"removeprefix", "sub"},
                                                      {"removesuffix", "sub"},
                                                      {"replace", "old new count"},
                                                      {"find", "sub"},
                                                      {"rfind", "sub"},
                                                      {"index", "sub"},
                                                      {"count", "sub"},
                                                      {"split", "sep maxsplit"},
                                                      {"rsplit", "sep maxsplit"},
                                                      {"splitlines", "keepends"},
                                                      {"join", "iterable"},
                                                      {"isdigit", ""},
                                                      {"isspace", ""},
                                                      {"upper", ""},
                                                      {"lower", ""},
                                                      {"capitalize", ""},
                                                      {"title", ""},
                                                      {"get", "key default"},
                                                      {"items", ""},
                                                      {"keys", ""},
                                                      {"values", ""}}};

std::string replaced(const std::string& text, const std::string& from, const std::string& to, std::int64_t most) {
  if (from.empty()) fail_value("a text is replaced that has no characters", "an empty text");
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos && most != 0; --most) {
    check_jinja_length(out.size() + to.size());
    out += text.substr(at, found - at) + to;
    at = found + from.size();
    found = text.find(from, at);
  }
  return out + text.substr(at);
}

// Splits a text at white space; the last part keeps what follows it.
ordered_json split_at_space(std::string_view rest, std::int64_t most) {
  ordered_json list = ordered_json::array();
  const auto skip = [&rest] {
    while (const std::size_t length = characters_off(rest, kPythonSpace, true)) rest.remove_prefix(length);
  };
  for (skip(); !rest.empty(); --most) {
    std::size_t end = most == 0 ? rest.size() : 0;
    while (end < rest.size() && characters_off(rest.substr(end), kPythonSpace, true) == 0) ++end;
    list.push_back(std::string(rest.substr(0, end)));
    rest.remove_prefix(end);
    skip();
  }
  return list;
}

ordered_json split_at(const std::string& text, const std::string& separator, std::int64_t most, bool from_end) {
  if (separator.empty()) fail_value("a text is split at nothing", "an empty text");
  std::vector<std::size_t> cuts;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, at + separator.size()))
    cuts.push_back(at);
  if (most >= 0 && std::ssize(cuts) > most) {
    const auto surplus = static_cast<std::ptrdiff_t>(cuts.size()) - static_cast<std::ptrdiff_t>(most);
    from_end ? cuts.erase(cuts.begin(), cuts.begin() + surplus) : cuts.erase(cuts.end() - surplus, cuts.end());
  }
  ordered_json list = ordered_json::array();
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    list.push_back(text.substr(at, cut - at));
    at = cut + separator.size();
  }
  list.push_back(text.substr(at));
  return list;
}

// The ends of lines that are one character are those of Python, apart from the rare ones beyond ASCII.
ordered_json lines_of(const std::string& text, bool keeps_ends) {
  ordered_json lines = ordered_json::array();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r\v\f\x1C\x1D\x1E", begin), text.size());
    std::size_t next = std::min(end + 1, text.size());
    if (end < text.size() && text[end] == '\r' && next < text.size() && text[next] == '\n') ++next;
    lines.push_back(text.substr(begin, (keeps_ends ? next : end) - begin));
    begin = next;
  }
  return lines;
}

std::string joined_items(const std::string& between, const Value& items) {
  std::string out;
  bool is_first = true;
  for (const ordered_json& item : elements_of(items)) {
    out += (is_first ? "" : between) + text_in(Value(item));
    check_jinja_length(out.size());
    is_first = false;
  }
  return out;
}

// Returns the number of characters before the byte `at`; -1 for nowhere.
std::int64_t characters_before(const std::string& text, std::size_t at) {
  if (at == std::string::npos) return -1;
  return static_cast<std::int64_t>(character_begins(std::string_view(text).substr(0, at)).size()) - 1;
}

std::int64_t occurrences(const std::string& text, const std::string& part) {
  if (part.empty()) return static_cast<std::int64_t>(character_begins(text).size());
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool all_in(const std::string& text, std::string_view characters) {
  return !text.empty() && stripped(text, characters, true, true).empty();
}

// Returns the text after one of the methods that take the text of one argument, or nothing for another method.
std::optional<Value> searched(const std::string& text, const std::string& name, const std::string& part) {
  const bool begins = text.starts_with(part), ends = text.ends_with(part);
  if (name == "startswith") return Value(begins);
  if (name == "endswith") return Value(ends);
  if (name == "removeprefix") return Value(begins ? text.substr(part.size()) : text);
  if (name == "removesuffix") return Value(ends ? text.substr(0, text.size() - part.size()) : text);
  if (name == "find") return Value(characters_before(text, text.find(part)));
  if (name == "rfind") return Value(characters_before(text, text.rfind(part)));
  if (name == "count") return Value(occurrences(text, part));
  if (name != "index") return std::nullopt;
  if (text.find(part) == std::string::npos) fail_value("a text has no such part", in_quotes(part));
  return Value(characters_before(text, text.find(part)));
}

}  // namespace

JinjaValue parts_of(const ordered_json& object, const std::string& which) {
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : object.items()) {
    list.push_back(which == "keys" ? ordered_json(key) : which == "values" ? value : ordered_json::array({key, value}));
  }
  return Value(std::move(list));
}

JinjaValue text_method(const std::string& text, const std::string& name, const JinjaArguments& arguments) {
  const auto given = [&](std::size_t i, const char* key) {
    const Value* const value = arguments.find_value(i, key);
    return value != nullptr ? std::optional(text_in(*value)) : std::nullopt;
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return Value(
        stripped(text, given(0, "chars").value_or(std::string(kPythonSpace)), name != "rstrip", name != "lstrip"));
  }
  const bool changes_case = name == "upper" || name == "lower" || name == "capitalize" || name == "title";
  if (changes_case && has_other_cases(text)) {
    fail_value("only the case of ASCII letters is changed", fmt::format("{} of {}", name, in_quotes(text)));
  }
  if (name == "upper" || name == "lower") return Value(cased(text, name == "upper"));
  if (name == "capitalize") return Value(capitalized(text));
  if (name == "title") return Value(titled(text));
  if (name == "replace") {
    const Value* const most = arguments.find_value(2, "count");
    return Value(replaced(text, given(0, "old").value_or(""), given(1, "new").value_or(""),
                          most == nullptr ? -1 : whole_in(*most)));
  }
  if (name == "split" || name == "rsplit") {
    const Value* const most = arguments.find_value(1, "maxsplit");
    const std::int64_t cuts = most == nullptr ? -1 : whole_in(*most);
    const std::optional<std::string> separator = given(0, "sep");
    if (!separator && name == "rsplit" && cuts >= 0)
      fail_value("it is given what is not understood", "rsplit, maxsplit");
    return Value(separator ? split_at(text, *separator, cuts, name == "rsplit") : split_at_space(text, cuts));
  }
  if (name == "splitlines") return Value(lines_of(text, arguments.asks(0, "keepends")));
  if (name == "join") {
    const Value* const items = arguments.find(0, "iterable");
    if (items == nullptr) fail_value("nothing is joined", "join");
    return Value(joined_items(text, *items));
  }
  if (name == "isdigit") return Value(all_in(text, "0123456789"));
  if (name == "isspace") return Value(all_in(text, kPythonSpace));
  if (const std::optional<Value> found = searched(text, name, given(0, "sub").value_or(""))) return *found;
  fail_value("a method of texts is not understood", name);
}

JinjaValue call_method(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments) {
  check_arguments(kMethods, "method", name, arguments);
  if (of.json.is_string()) return text_method(of.json.get<std::string>(), name, arguments);
  if (of.json.is_object() && !of.members) {
    if (name == "get") {
      const Value *const key = arguments.find(0, "key"), *const otherwise = arguments.find(1, "default");
      const auto found = of.json.find(text_in(key == nullptr ? Value() : *key));
      return found != of.json.end() ? Value(*found) : otherwise == nullptr ? Value() : *otherwise;
    }
    if (name == "items" || name == "keys" || name == "values") return parts_of(of.json, name);
  }
  fail_value("a method is not understood", name);
}

}  // namespace plimsoll
