#include "formats/jinja_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

#include "base/in_quotes.h"
#include "formats/jinja_text.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Value = JinjaValue;
using Arguments = JinjaArguments;

[[noreturn]] void fail(std::string what, std::string found) { throw JinjaFault{std::move(what), std::move(found)}; }

void check_length(std::size_t bytes) {
  if (bytes > kMostJinjaBytes) fail("it makes more text than any chat has", std::to_string(bytes) + " bytes");
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("a text is replaced that has no characters", "an empty text");
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    check_length(out.size() + to.size());
    out += text.substr(at, found - at) + to;
    at = found + from.size();
  }
  return out + text.substr(at);
}

bool equal(const ordered_json& a, const ordered_json& b) {
  if (a.is_boolean() != b.is_boolean() && (a.is_number() || b.is_number())) {
    const auto number = [](const ordered_json& x) {
      return x.is_boolean() ? (x.get<bool>() ? 1.0 : 0.0) : x.get<double>();
    };
    return number(a) == number(b);
  }
  return a == b;
}

ordered_json number_in(const Value& value) {
  if (value.json.is_boolean()) return std::int64_t{value.json.get<bool>() ? 1 : 0};
  if (!value.json.is_number()) fail("a number is needed", value.is_undefined ? "nothing" : python_str(value.json));
  return value.json;
}

std::optional<bool> compared(const std::string& sign, int order) {
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  if (sign == ">") return order > 0;
  if (sign == ">=") return order >= 0;
  return std::nullopt;
}

Value arithmetic(const std::string& sign, const ordered_json& a, const ordered_json& b) {
  const auto x = a.get<double>(), y = b.get<double>();
  if (const std::optional<bool> found = compared(sign, x < y ? -1 : x > y ? 1 : 0)) return Value(*found);
  const bool divides = sign == "/" || sign == "//" || sign == "%";
  if (divides && y == 0) fail("it divides by 0", python_str(a));
  if (sign == "/") return Value(x / y);
  if (a.is_number_float() || b.is_number_float()) {
    const double found = sign == "+"    ? x + y
                         : sign == "-"  ? x - y
                         : sign == "*"  ? x * y
                         : sign == "//" ? std::floor(x / y)
                                        : x - y * std::floor(x / y);
    return Value(found);
  }
  // The largest integer that is accepted: templates count messages, never near 2^62.
  constexpr double kMost = 1 << 30;
  const auto i = a.get<std::int64_t>(), j = b.get<std::int64_t>();
  if (std::max(std::abs(x), std::abs(y)) > kMost) fail("a number is too large", python_str(a));
  if (divides) {  // rounded down
    const std::int64_t below = i / j - ((i % j != 0 && (i < 0) != (j < 0)) ? 1 : 0);
    return Value(sign == "//" ? below : i - j * below);
  }
  return Value(sign == "+" ? i + j : sign == "-" ? i - j : i * j);
}

bool contains(const Value& in, const Value& what) {
  if (in.json.is_string()) return in.json.get_ref<const std::string&>().find(text_in(what)) != std::string::npos;
  if (in.json.is_object()) return what.json.is_string() && in.json.contains(what.json.get<std::string>());
  return std::ranges::any_of(elements_of(in), [&](const ordered_json& item) { return equal(item, what.json); });
}

Value joined(std::string left, const std::string& right) {
  check_length(left.size() + right.size());
  return Value(std::move(left += right));
}

std::string times(const std::string& text, std::int64_t count) {
  if (count > 0)
    check_length(std::max<std::size_t>(text.size(), 1) *
                 static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 30)));
  std::string out;
  for (; count > 0; --count) out += text;
  return out;
}

ordered_json list_of(const std::vector<ordered_json>& items) {
  ordered_json list = ordered_json::array();
  for (const ordered_json& item : items) list.push_back(item);
  return list;
}

Value parts_of(const ordered_json& object, const std::string& which) {
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : object.items()) {
    list.push_back(which == "keys" ? ordered_json(key) : which == "values" ? value : ordered_json::array({key, value}));
  }
  return Value(std::move(list));
}

Value split(const std::string& text, const std::optional<std::string>& separator, std::int64_t most) {
  ordered_json list = ordered_json::array();
  if (!separator) {
    std::string_view rest = text;
    const auto skip = [&rest] {
      while (const std::size_t length = characters_off(rest, kPythonSpace, true)) rest.remove_prefix(length);
    };
    for (skip(); !rest.empty(); --most) {
      std::size_t end = most == 0 ? rest.size() : 0;
      while (end < rest.size() && characters_off(rest.substr(end), kPythonSpace, true) == 0) ++end;
      list.push_back(std::string(rest.substr(0, end)));  // the last one keeps what follows it
      rest.remove_prefix(end);
      skip();
    }
    return Value(std::move(list));
  }
  if (separator->empty()) fail("a text is split at nothing", "an empty text");
  std::size_t at = 0;
  for (std::size_t found = text.find(*separator); found != std::string::npos && most != 0; --most) {
    list.push_back(text.substr(at, found - at));
    at = found + separator->size();
    found = text.find(*separator, at);
  }
  list.push_back(text.substr(at));
  return Value(std::move(list));
}

Value method_of_text(const std::string& text, const std::string& name, const Arguments& arguments) {
  const auto given = [&](std::size_t i, const char* key) {
    const Value* const value = arguments.find(i, key);
    return value != nullptr && !value->json.is_null() ? std::optional(text_in(*value)) : std::nullopt;
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return Value(
        stripped(text, given(0, "chars").value_or(std::string(kPythonSpace)), name != "rstrip", name != "lstrip"));
  }
  if (name == "startswith" || name == "endswith") {
    const std::string part = given(0, "prefix").value_or("");
    return Value(name == "startswith" ? text.starts_with(part) : text.ends_with(part));
  }
  const bool changes_case = name == "upper" || name == "lower" || name == "capitalize" || name == "title";
  if (changes_case && has_other_cases(text)) {
    fail("only the case of ASCII letters is changed", fmt::format("{} of {}", name, in_quotes(text)));
  }
  if (name == "upper" || name == "lower") return Value(cased(text, name == "upper"));
  if (name == "capitalize") return Value(capitalized(text));
  if (name == "title") return Value(titled(text));
  if (name == "replace") return Value(replaced(text, given(0, "old").value_or(""), given(1, "new").value_or("")));
  if (name == "find") {
    const std::size_t at = text.find(given(0, "sub").value_or(""));
    if (at == std::string::npos) return Value(std::int64_t{-1});
    return Value(static_cast<std::int64_t>(character_begins(std::string_view(text).substr(0, at)).size()) - 1);
  }
  if (name == "split") {
    const Value* const most = arguments.find(1, "maxsplit");
    return split(text, given(0, "sep"), most == nullptr ? -1 : whole_in(*most));
  }
  fail("a method of texts is not understood", name);
}

std::string indented(const std::string& text, const Arguments& arguments) {
  const Value *const width = arguments.find(0, "width"), *const first = arguments.find(1, "first");
  const bool is_text = width != nullptr && width->json.is_string();
  const std::int64_t spaces = width == nullptr || is_text ? 4 : std::clamp<std::int64_t>(whole_in(*width), 0, 1000);
  const std::string space =
      is_text ? width->json.get<std::string>() : std::string(static_cast<std::size_t>(spaces), ' ');
  std::string out = first != nullptr && is_true(*first) ? space : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size() && text[i + 1] != '\n') out += space;
    check_length(out.size());
  }
  return out;
}

Value as_number(const Value& of, bool whole) {
  double number = 0;
  if (of.json.is_string()) {
    const std::string text = stripped(of.json.get<std::string>(), kPythonSpace, true, true);
    char* end = nullptr;
    number = std::strtod(text.c_str(), &end);
    const bool is_decimal = text.find_first_of("xXpP") == std::string::npos;
    if (!is_decimal || text.empty() || end != text.c_str() + text.size()) number = 0;
  } else {
    number = number_in(of).get<double>();
  }
  if (!std::isfinite(number) || std::abs(number) > 1e15) fail("a number is too large", printed(of));
  return whole ? Value(static_cast<std::int64_t>(number)) : Value(number);
}

// Returns the item's member by a path, as filters take it: "a.b", "a.0".
Value member_at(const ordered_json& item, const Value& path) {
  if (!path.json.is_string()) return item_of(Value(item), path);
  const std::string text = path.json.get<std::string>();
  Value value(item);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    constexpr std::size_t kMostDigits = 9;
    const bool number =
        !part.empty() && part.size() <= kMostDigits && part.find_first_not_of("0123456789") == std::string::npos;
    value = item_of(value, number ? Value(static_cast<std::int64_t>(std::stoll(part))) : Value(part));
    begin = end + 1;
  }
  return value;
}

Value select_items(const std::vector<ordered_json>& items, bool keeps, const Arguments& arguments) {
  const Value *const key = arguments.find(0, "attribute"), *const test = arguments.find(1, "test"),
                     *const against = arguments.find(2, "value");
  if (key == nullptr) fail("items are selected by nothing", "selectattr");
  ordered_json list = ordered_json::array();
  for (const ordered_json& item : items) {
    const Value member = member_at(item, *key);
    const bool holds = test == nullptr ? is_true(member)
                                       : passes_test(member, text_in(*test), against == nullptr ? Value() : *against);
    if (holds == keeps) list.push_back(item);
  }
  return Value(std::move(list));
}

Value filter_of_list(const Value& of, const std::string& name, const Arguments& arguments) {
  std::vector<ordered_json> items = elements_of(of);
  if (name == "length" || name == "count") return Value(static_cast<std::int64_t>(items.size()));
  if (name == "first") return items.empty() ? Value::undefined() : Value(items.front());
  if (name == "last") return items.empty() ? Value::undefined() : Value(items.back());
  if (name == "list") return Value(list_of(items));
  if (name == "join" || (name == "reverse" && of.json.is_string())) {
    if (name == "reverse") std::ranges::reverse(items);
    const Value* const between = name == "join" ? arguments.find(0, "d") : nullptr;
    std::string text;
    for (std::size_t i = 0; i < items.size(); ++i) {
      text += (i > 0 && between != nullptr ? printed(*between) : "") + python_str(items[i]);
      check_length(text.size());
    }
    return Value(std::move(text));
  }
  if (name == "reverse") {
    std::ranges::reverse(items);
    return Value(list_of(items));
  }
  ordered_json list = ordered_json::array();
  if (name == "unique") {
    constexpr std::size_t kMost = 10'000;  // each item is compared with all others
    if (items.size() > kMost) fail("a list is longer than any chat's", std::to_string(items.size()) + " items");
    for (const ordered_json& item : items) {
      if (std::ranges::none_of(list, [&](const ordered_json& known) { return equal(known, item); }))
        list.push_back(item);
    }
    return Value(std::move(list));
  }
  if (name == "map") {
    const Value* const key = arguments.find(arguments.values.size(), "attribute");
    if (key == nullptr) fail("map is understood with an attribute alone", "map");
    for (const ordered_json& item : items) list.push_back(member_at(item, *key).json);
    return Value(std::move(list));
  }
  return select_items(items, name == "selectattr", arguments);
}

// The arguments that each filter and method supports: by position, and for filters also by name.
struct Signature {
  std::string_view name, places, names{};
};
constexpr std::array<Signature, 27> kFilters = {{{"default", "default_value boolean"},
                                                 {"d", "default_value boolean"},
                                                 {"tojson", "", "indent ensure_ascii"},
                                                 {"trim", "chars"},
                                                 {"replace", "old new"},
                                                 {"indent", "width first"},
                                                 {"join", "d"},
                                                 {"map", "", "attribute"},
                                                 {"selectattr", "attribute test value"},
                                                 {"rejectattr", "attribute test value"},
                                                 {"safe", ""},
                                                 {"string", ""},
                                                 {"length", ""},
                                                 {"count", ""},
                                                 {"first", ""},
                                                 {"last", ""},
                                                 {"list", ""},
                                                 {"items", ""},
                                                 {"unique", ""},
                                                 {"reverse", ""},
                                                 {"upper", ""},
                                                 {"lower", ""},
                                                 {"capitalize", ""},
                                                 {"title", ""},
                                                 {"int", ""},
                                                 {"float", ""},
                                                 {"abs", ""}}};
constexpr std::array<Signature, 9> kMethods = {{{"strip", "chars"},
                                                {"lstrip", "chars"},
                                                {"rstrip", "chars"},
                                                {"startswith", "prefix"},
                                                {"endswith", "prefix"},
                                                {"replace", "old new"},
                                                {"find", "sub"},
                                                {"split", "sep maxsplit"},
                                                {"get", "key default"}}};

// Refuses arguments that would be ignored.
void check_arguments(std::span<const Signature> signatures, const std::string& name, const Arguments& arguments) {
  const auto known = std::ranges::find(signatures, name, &Signature::name);
  const Signature signature = known == signatures.end() ? Signature{name, ""} : *known;
  const auto words = [](std::string_view list) {
    return list.empty() ? 0 : static_cast<std::size_t>(std::ranges::count(list, ' ')) + 1;
  };
  if (arguments.values.size() > words(signature.places)) fail("it is given more than is understood", name);
  const std::string all = fmt::format(" {} {} ", signature.places, signature.names);
  for (const auto& [key, value] : arguments.named) {
    if (all.find(" " + key + " ") == std::string::npos) fail("it is given what is not understood", name + ", " + key);
  }
}

int depth_of(const ordered_json& json) {
  int deepest = 0;
  if (!json.is_structured()) return deepest;
  for (const ordered_json& item : json) deepest = std::max(deepest, depth_of(item));
  return deepest + 1;
}

// Returns the approximate size in bytes.
std::size_t size_of_json(const ordered_json& json) {
  constexpr std::size_t kOwn = 16;
  if (json.is_string()) return kOwn + json.get_ref<const std::string&>().size();
  std::size_t size = kOwn;
  if (json.is_structured()) {
    for (const ordered_json& item : json) size += size_of_json(item);
  }
  return size;
}

}  // namespace

std::size_t size_of(const JinjaValue& value) {
  if (depth_of(value.json) > kDeepestJinjaValue) fail("a value is nested too deep", "more than 64 levels");
  const std::size_t size = size_of_json(value.json);
  if (size > kMostJinjaBytes) fail("a value is larger than any chat", std::to_string(size) + " bytes");
  return size;
}

const JinjaValue* JinjaArguments::find(std::size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  const auto found = std::ranges::find(named, name, &std::pair<std::string, JinjaValue>::first);
  return found == named.end() ? nullptr : &found->second;
}

bool is_true(const JinjaValue& value) {
  if (value.members) return true;
  if (value.is_undefined || value.json.is_null()) return false;
  const ordered_json& json = value.json;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>() != 0;
  if (json.is_string()) return !json.get_ref<const std::string&>().empty();
  return !json.empty();
}

std::string printed(const JinjaValue& value) { return value.is_undefined ? std::string() : python_str(value.json); }

std::string text_in(const JinjaValue& value) {
  if (!value.json.is_string()) fail("a text is needed", value.is_undefined ? "nothing" : python_str(value.json));
  return value.json.get<std::string>();
}

std::int64_t whole_in(const JinjaValue& value) {
  constexpr double kMost = 1e15;
  const ordered_json number = number_in(value);
  if (number.is_number_float() || std::abs(number.get<double>()) > kMost)
    fail("a whole number is needed", python_str(number));
  return number.get<std::int64_t>();
}

std::vector<ordered_json> elements_of(const JinjaValue& value) {
  std::vector<ordered_json> all;
  if (value.is_undefined) return all;
  if (value.json.is_array()) {
    all.assign(value.json.begin(), value.json.end());
  } else if (value.json.is_object()) {
    for (const auto& [key, ignored] : value.json.items()) all.emplace_back(key);
  } else if (value.json.is_string()) {
    const auto& text = value.json.get_ref<const std::string&>();
    const std::vector<std::size_t> begins = character_begins(text);
    if (begins.size() > kMostJinjaItems)
      fail("a text is longer than any chat's", std::to_string(text.size()) + " bytes");
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      all.emplace_back(text.substr(begins[i], begins[i + 1] - begins[i]));
    }
  } else {
    fail("a list is needed", python_str(value.json));
  }
  return all;
}

JinjaValue attribute_of(const JinjaValue& of, const std::string& name) {
  if (of.members) {
    const auto found = of.members->find(name);
    return found == of.members->end() ? Value::undefined() : found->second;
  }
  if (of.is_undefined) fail("a member is asked of a value that is not there", name);
  if (!of.json.is_object()) return Value::undefined();
  const auto found = of.json.find(name);
  return found == of.json.end() ? Value::undefined() : Value(*found);
}

JinjaValue item_of(const JinjaValue& of, const JinjaValue& index) {
  if (of.is_undefined) fail("an item is asked of a value that is not there", printed(index));
  // A number used as a key becomes text.
  if (index.json.is_string() || of.json.is_object()) return attribute_of(of, printed(index));
  if (!of.json.is_string() && !of.json.is_array()) return Value::undefined();
  const std::vector<ordered_json> all = elements_of(of);
  std::int64_t at = whole_in(index);
  if (at < 0) at += std::ssize(all);
  return at < 0 || at >= std::ssize(all) ? Value::undefined() : Value(all[static_cast<std::size_t>(at)]);
}

JinjaValue slice_of(const JinjaValue& of, const JinjaValue& begin, const JinjaValue& end, const JinjaValue& step) {
  const std::vector<ordered_json> all = elements_of(of);
  const auto length = std::ssize(all);
  const std::int64_t by = step.json.is_null() ? 1 : whole_in(step);
  if (by == 0) fail("a slice has steps of 0", "0");
  const auto bound = [&](const Value& at, std::int64_t otherwise) {
    if (at.json.is_null()) return otherwise;
    const std::int64_t given = whole_in(at), absolute = given < 0 ? given + length : given;
    return by > 0 ? std::clamp<std::int64_t>(absolute, 0, length) : std::clamp<std::int64_t>(absolute, -1, length - 1);
  };
  const std::int64_t first = bound(begin, by > 0 ? 0 : length - 1), last = bound(end, by > 0 ? length : -1);
  ordered_json list = ordered_json::array();
  std::string text;
  for (std::int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    const ordered_json& item = all[static_cast<std::size_t>(i)];
    if (of.json.is_string()) text += item.get<std::string>();
    list.push_back(item);
  }
  return of.json.is_string() ? Value(std::move(text)) : Value(std::move(list));
}

JinjaValue apply_operator(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
  if (sign == "~") return joined(printed(left), printed(right));
  if (sign == "==" || sign == "!=") {
    const bool same =
        left.is_undefined == right.is_undefined && left.members == right.members && equal(left.json, right.json);
    return Value((sign == "==") == same);
  }
  if (sign == "in") return Value(contains(right, left));
  if (sign == "+" && left.json.is_string()) return joined(left.json.get<std::string>(), text_in(right));
  if (sign == "+" && left.json.is_array() && right.json.is_array()) {
    if (left.json.size() + right.json.size() > kMostJinjaItems) fail("it makes a longer list than any chat", "+");
    ordered_json list = left.json;
    for (const ordered_json& item : right.json) list.push_back(item);
    return Value(std::move(list));
  }
  if (left.json.is_string() && right.json.is_string()) {
    const int order = left.json.get_ref<const std::string&>().compare(right.json.get_ref<const std::string&>());
    if (const std::optional<bool> found = compared(sign, order)) return Value(*found);
  }
  if (sign == "*" && left.json.is_string()) return Value(times(left.json.get<std::string>(), whole_in(right)));
  if (sign == "%" && left.json.is_string()) fail("texts are not formatted by %", python_str(left.json));
  return arithmetic(sign, number_in(left), number_in(right));
}

JinjaValue negative_of(const JinjaValue& value) {
  const ordered_json number = number_in(value);
  return number.is_number_float() ? Value(-number.get<double>()) : arithmetic("-", std::int64_t{0}, number);
}

JinjaValue apply_filter(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments) {
  if (std::ranges::find(kFilters, name, &Signature::name) == kFilters.end()) fail("a filter is not understood", name);
  check_arguments(kFilters, name, arguments);
  if (name == "default" || name == "d") {
    const Value *const otherwise = arguments.find(0, "default_value"), *const strict = arguments.find(1, "boolean");
    const bool is_missing = of.is_undefined || (strict != nullptr && is_true(*strict) && !is_true(of));
    return !is_missing ? of : otherwise == nullptr ? Value("") : *otherwise;
  }
  if (name == "safe") return of;
  if (name == "string") return Value(printed(of));
  if (name == "tojson") {
    const Value* const indent = arguments.find(arguments.values.size(), "indent");
    const Value* const ascii = arguments.find(arguments.values.size(), "ensure_ascii");
    if (ascii != nullptr && is_true(*ascii)) fail("it is given what is not understood", "tojson, ensure_ascii");
    if (of.is_undefined) fail("a value that is not there is written as JSON", "tojson");
    const bool has_indent = indent != nullptr && !indent->json.is_null();
    return Value(
        json_dumps(of.json, has_indent ? static_cast<int>(std::clamp<std::int64_t>(whole_in(*indent), 0, 100)) : -1));
  }
  if (name == "trim") {
    const Value* const chars = arguments.find(0, "chars");
    return Value(stripped(printed(of), chars == nullptr ? std::string(kPythonSpace) : text_in(*chars), true, true));
  }
  if (name == "title" && !has_other_cases(printed(of))) return Value(titled_words(printed(of)));
  for (const char* const method : {"upper", "lower", "capitalize", "title", "replace"}) {
    if (name == method) return method_of_text(printed(of), name, arguments);
  }
  if (name == "indent") return Value(indented(printed(of), arguments));
  if (name == "int" || name == "float") return as_number(of, name == "int");
  if (name == "abs") return arithmetic("<", number_in(of), std::int64_t{0}).json.get<bool>() ? negative_of(of) : of;
  if (name == "items" && of.json.is_object()) return parts_of(of.json, "items");
  return filter_of_list(of, name, arguments);
}

bool passes_test(const JinjaValue& of, const std::string& name, const JinjaValue& against) {
  const ordered_json& json = of.json;
  const bool is_object = json.is_object() && !of.members;
  if (name == "defined") return !of.is_undefined;
  if (name == "undefined") return of.is_undefined;
  if (name == "none") return !of.is_undefined && json.is_null() && !of.members;
  if (name == "string") return json.is_string();
  if (name == "mapping") return is_object;
  if (name == "sequence" || name == "iterable") return json.is_array() || json.is_string() || is_object;
  if (name == "number") return json.is_number() || json.is_boolean();  // as Python has it
  if (name == "integer") return json.is_number_integer();
  if (name == "float") return json.is_number_float();
  if (name == "boolean") return json.is_boolean();
  if (name == "true") return json.is_boolean() && json.get<bool>();
  if (name == "false") return json.is_boolean() && !json.get<bool>();
  if (name == "odd") return whole_in(of) % 2 != 0;
  if (name == "even") return whole_in(of) % 2 == 0;
  if (name == "equalto" || name == "eq" || name == "sameas") return equal(json, against.json);
  if (name == "ne") return !equal(json, against.json);
  if (name == "in") return contains(against, of);
  if (name == "divisibleby") {
    const std::int64_t by = whole_in(against);
    return by != 0 && whole_in(of) % by == 0;
  }
  fail("a test is not understood", name);
}

JinjaValue call_method(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments) {
  check_arguments(kMethods, name, arguments);
  if (of.json.is_string()) return method_of_text(of.json.get<std::string>(), name, arguments);
  if (of.json.is_object() && !of.members) {
    if (name == "get") {
      const Value *const key = arguments.find(0, "key"), *const otherwise = arguments.find(1, "default");
      const auto found = of.json.find(text_in(key == nullptr ? Value() : *key));
      return found != of.json.end() ? Value(*found) : otherwise == nullptr ? Value() : *otherwise;
    }
    if (name == "items" || name == "keys" || name == "values") return parts_of(of.json, name);
  }
  fail("a method is not understood", name);
}

}  // namespace plimsoll
