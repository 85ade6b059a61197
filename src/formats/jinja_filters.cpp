#include "formats/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "formats/jinja_methods.h"
#include "formats/jinja_text.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Value = JinjaValue;
using Arguments = JinjaArguments;

constexpr std::array<JinjaSignature, 35> kFilters = {{{"default", "default_value boolean"},
                                                      {"d", "default_value boolean"},
                                                      {"tojson", "ensure_ascii indent separators sort_keys"},
                                                      {"trim", "chars"},
                                                      {"replace", "old new count"},
                                                      {"indent", "width first blank"},
                                                      {"join", "d attribute"},
                                                      {"map", "filter argument1 argument2", "attribute default"},
                                                      {"select", "test value"},
                                                      {"reject", "test value"},
                                                      {"selectattr", "attribute test value"},
                                                      {"rejectattr", "attribute test value"},
                                                      {"sort", "reverse case_sensitive attribute"},
                                                      {"dictsort", "case_sensitive by reverse"},
                                                      {"min", "case_sensitive attribute"},
                                                      {"max", "case_sensitive attribute"},
                                                      {"unique", "case_sensitive attribute"},
                                                      {"sum", "attribute start"},
                                                      {"round", "precision method"},
                                                      {"safe", ""},
                                                      {"string", ""},
                                                      {"length", ""},
                                                      {"count", ""},
                                                      {"first", ""},
                                                      {"last", ""},
                                                      {"list", ""},
                                                      {"items", ""},
                                                      {"reverse", ""},
                                                      {"upper", ""},
                                                      {"lower", ""},
                                                      {"capitalize", ""},
                                                      {"title", ""},
                                                      {"int", "default"},
                                                      {"float", "default"},
                                                      {"abs", ""}}};

std::string indented(const std::string& text, const Arguments& arguments) {
  const Value* const width = arguments.find(0, "width");
  const bool is_text = width != nullptr && width->json.is_string(), blank = arguments.asks(2, "blank");
  const std::int64_t spaces = width == nullptr || is_text ? 4 : std::clamp<std::int64_t>(whole_in(*width), 0, 1000);
  const std::string space =
      is_text ? width->json.get<std::string>() : std::string(static_cast<std::size_t>(spaces), ' ');
  std::string out = arguments.asks(1, "first") ? space : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && (blank || (i + 1 < text.size() && text[i + 1] != '\n'))) out += space;
    check_jinja_length(out.size());
  }
  return out;
}

Value as_number(const Value& of, bool whole, const Value* otherwise) {
  double number = 0;
  if (of.json.is_string()) {
    const std::string text = stripped(of.json.get<std::string>(), kPythonSpace, true, true);
    char* end = nullptr;
    number = std::strtod(text.c_str(), &end);
    const bool is_decimal = text.find_first_of("xXpP") == std::string::npos;
    if (!is_decimal || text.empty() || end != text.c_str() + text.size()) {
      if (otherwise != nullptr) return *otherwise;
      number = 0;
    }
  } else {
    number = number_in(of).get<double>();
  }
  if (!std::isfinite(number) || std::abs(number) > 1e15) fail_value("a number is too large", printed(of));
  return whole ? Value(static_cast<std::int64_t>(number)) : Value(number);
}

// Rounds as Python does: halves to even, of the number's exact value.
Value rounded(const Value& of, const Arguments& arguments) {
  const ordered_json number = number_in(of);
  const Value *const precision = arguments.find(0, "precision"), *const method = arguments.find(1, "method");
  const std::int64_t digits = precision == nullptr ? 0 : whole_in(*precision);
  const std::string how = method == nullptr ? "common" : text_in(*method);
  constexpr std::int64_t kMostDigits = 15;
  if (digits < 0 || digits > kMostDigits) fail_value("a number is rounded to too many digits", std::to_string(digits));
  const auto exact = number.get<double>();
  if (how == "common") {
    if (number.is_number_integer()) return of;
    return Value(std::strtod(fmt::format("{:.{}f}", exact, digits).c_str(), nullptr));
  }
  if (how != "ceil" && how != "floor") fail_value("a way of rounding is not understood", how);
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return Value((how == "ceil" ? std::ceil(exact * scale) : std::floor(exact * scale)) / scale);
}

std::string as_json(const Value& of, const Arguments& arguments) {
  if (of.is_undefined) fail_value("a value that is not there is written as JSON", "tojson");
  constexpr std::int64_t kMostSpaces = 100;
  JsonDumps form{.ascii = arguments.asks(0, "ensure_ascii"), .sorted = arguments.asks(3, "sort_keys")};
  if (const Value* const indent = arguments.find_value(1, "indent")) {
    const bool is_text = indent->json.is_string();
    const std::int64_t spaces = is_text ? 0 : std::clamp<std::int64_t>(whole_in(*indent), 0, kMostSpaces);
    form.indent = is_text ? indent->json.get<std::string>() : std::string(static_cast<std::size_t>(spaces), ' ');
    form.between = ",";
  }
  if (const Value* const separators = arguments.find_value(2, "separators")) {
    const ordered_json& two = separators->json;
    if (!two.is_array() || two.size() != 2) fail_value("two separators are needed", python_str(two));
    form.between = text_in(Value(two[0]));
    form.after_key = text_in(Value(two[1]));
  }
  return json_dumps(of.json, form);
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
Value member_or_item(const ordered_json& item, const Value* path) {
  return path == nullptr ? Value(item) : member_at(item, *path);
}

// Returns what items are ordered by: without `case_sensitive`, texts by their lower-case forms.
Value order_key(const ordered_json& item, const Value* path, bool case_sensitive) {
  Value key = member_or_item(item, path);
  if (case_sensitive || !key.json.is_string()) return key;
  return text_method(key.json.get<std::string>(), "lower", {});
}

bool is_less(const Value& a, const Value& b) {
  if (a.json.is_array() && b.json.is_array()) {  // by the first items that differ
    const std::size_t both = std::min(a.json.size(), b.json.size());
    for (std::size_t i = 0; i < both; ++i) {
      const Value x(a.json[i]), y(b.json[i]);
      if (!is_true(apply_operator("==", x, y))) return is_less(x, y);
    }
    return a.json.size() < b.json.size();
  }
  return is_true(apply_operator("<", a, b));
}

// Each item is compared with others, so that a list must not be long.
void check_count(const std::vector<ordered_json>& items) {
  constexpr std::size_t kMost = 10'000;
  if (items.size() > kMost) fail_value("a list is longer than any chat's", std::to_string(items.size()) + " items");
}

struct Keyed {
  Value key;
  ordered_json item;
};
std::vector<Keyed> keyed(const std::vector<ordered_json>& items, const Value* path, bool case_sensitive) {
  check_count(items);
  std::vector<Keyed> all;
  all.reserve(items.size());
  for (const ordered_json& item : items) all.push_back({order_key(item, path, case_sensitive), item});
  return all;
}

Value sorted_items(const std::vector<ordered_json>& items, const Value* path, bool case_sensitive, bool reverse) {
  if (path != nullptr && path->json.is_string() &&
      path->json.get_ref<const std::string&>().find(',') != std::string::npos)
    fail_value("items are sorted by one attribute alone", printed(*path));
  std::vector<Keyed> all = keyed(items, path, case_sensitive);
  std::ranges::stable_sort(all, [reverse](const Keyed& a, const Keyed& b) {
    return reverse ? is_less(b.key, a.key) : is_less(a.key, b.key);
  });
  ordered_json list = ordered_json::array();
  for (Keyed& each : all) list.push_back(std::move(each.item));
  return Value(std::move(list));
}

Value sorted_members(const Value& of, const Arguments& arguments) {
  if (!of.json.is_object()) fail_value("an object is needed", printed(of));
  const Value* const by = arguments.find(1, "by");
  const std::string what = by == nullptr ? "key" : text_in(*by);
  if (what != "key" && what != "value") fail_value("an object is sorted by its keys or its values", what);
  const Value place(std::int64_t{what == "key" ? 0 : 1});
  return sorted_items(elements_of(parts_of(of.json, "items")), &place, arguments.asks(0, "case_sensitive"),
                      arguments.asks(2, "reverse"));
}

Value extreme_of(const std::vector<ordered_json>& items, bool largest, const Arguments& arguments) {
  const std::vector<Keyed> all =
      keyed(items, arguments.find_value(1, "attribute"), arguments.asks(0, "case_sensitive"));
  if (all.empty()) return Value::undefined();
  const Keyed* found = all.data();
  for (const Keyed& each : all) {
    if (largest ? is_less(found->key, each.key) : is_less(each.key, found->key)) found = &each;
  }
  return Value(found->item);
}

Value sum_of(const std::vector<ordered_json>& items, const Arguments& arguments) {
  const Value *const path = arguments.find_value(0, "attribute"), *const start = arguments.find(1, "start");
  Value sum = start == nullptr ? Value(std::int64_t{0}) : *start;
  for (const ordered_json& item : items) sum = apply_operator("+", sum, member_or_item(item, path));
  return sum;
}

// Keeps the items that pass a test, or do not; their member at `path` is what is tested. `first` is the position of the
// test among the arguments.
Value select_items(const std::vector<ordered_json>& items, bool keeps, const Value* path, std::size_t first,
                   const Arguments& arguments) {
  const Value *const test = arguments.find(first, "test"), *const against = arguments.find(first + 1, "value");
  ordered_json list = ordered_json::array();
  for (const ordered_json& item : items) {
    const Value member = member_or_item(item, path);
    const bool holds = test == nullptr ? is_true(member)
                                       : passes_test(member, text_in(*test), against == nullptr ? Value() : *against);
    if (holds == keeps) list.push_back(item);
  }
  return Value(std::move(list));
}

Value mapped(const std::vector<ordered_json>& items, const Arguments& arguments) {
  const std::size_t nowhere = arguments.values.size();
  const Value *const path = arguments.find(nowhere, "attribute"), *const otherwise = arguments.find(nowhere, "default");
  if ((path == nullptr) == arguments.values.empty() || (path == nullptr && otherwise != nullptr))
    fail_value("map needs an attribute or a filter", "map");
  Arguments rest;
  if (path == nullptr) rest.values.assign(arguments.values.begin() + 1, arguments.values.end());
  ordered_json list = ordered_json::array();
  for (const ordered_json& item : items) {
    Value made =
        path != nullptr ? member_at(item, *path) : apply_filter(Value(item), text_in(arguments.values.front()), rest);
    if (made.is_undefined && otherwise != nullptr) made = *otherwise;
    list.push_back(std::move(made.json));
  }
  return Value(std::move(list));
}

std::string joined_texts(const std::vector<ordered_json>& items, const Arguments& arguments) {
  const Value *const between = arguments.find(0, "d"), *const path = arguments.find_value(1, "attribute");
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i > 0 && between != nullptr ? printed(*between) : "") + printed(member_or_item(items[i], path));
    check_jinja_length(text.size());
  }
  return text;
}

Value unique_items(const std::vector<ordered_json>& items, const Arguments& arguments) {
  std::vector<Value> known;
  ordered_json list = ordered_json::array();
  for (Keyed& each : keyed(items, arguments.find_value(1, "attribute"), arguments.asks(0, "case_sensitive"))) {
    const bool is_new =
        std::ranges::none_of(known, [&](const Value& key) { return is_true(apply_operator("==", key, each.key)); });
    if (!is_new) continue;
    known.push_back(std::move(each.key));
    list.push_back(std::move(each.item));
  }
  return Value(std::move(list));
}

Value filter_of_list(const Value& of, const std::string& name, const Arguments& arguments) {
  std::vector<ordered_json> items = elements_of(of);
  if (name == "length" || name == "count") return Value(static_cast<std::int64_t>(items.size()));
  if (name == "first") return items.empty() ? Value::undefined() : Value(items.front());
  if (name == "last") return items.empty() ? Value::undefined() : Value(items.back());
  if (name == "list") return Value(ordered_json(items));
  if (name == "join") return Value(joined_texts(items, arguments));
  if (name == "reverse") {
    std::ranges::reverse(items);
    return of.json.is_string() ? Value(joined_texts(items, {})) : Value(ordered_json(items));
  }
  if (name == "unique") return unique_items(items, arguments);
  if (name == "map") return mapped(items, arguments);
  if (name == "sort") {
    return sorted_items(items, arguments.find_value(2, "attribute"), arguments.asks(1, "case_sensitive"),
                        arguments.asks(0, "reverse"));
  }
  if (name == "min" || name == "max") return extreme_of(items, name == "max", arguments);
  if (name == "sum") return sum_of(items, arguments);
  if (name == "select" || name == "reject") return select_items(items, name == "select", nullptr, 0, arguments);
  const Value* const path = arguments.find(0, "attribute");
  if (path == nullptr) fail_value("items are selected by nothing", name);
  return select_items(items, name == "selectattr", path, 1, arguments);
}

// Returns the operator that a test is another name of; empty for another test.
std::string operator_of_test(const std::string& name) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"eq", "=="}, {"equalto", "=="}, {"ne", "!="}, {"lt", "<"},         {"lessthan", "<"},
      {"le", "<="}, {"gt", ">"},       {"ge", ">="}, {"greaterthan", ">"}};
  for (const auto& [test, sign] : kNames) {
    if (name == test || name == sign) return sign;
  }
  return {};
}

}  // namespace

JinjaValue apply_filter(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments) {
  check_arguments(kFilters, "filter", name, arguments);
  if (name == "default" || name == "d") {
    const Value* const otherwise = arguments.find(0, "default_value");
    const bool is_missing = of.is_undefined || (arguments.asks(1, "boolean") && !is_true(of));
    return !is_missing ? of : otherwise == nullptr ? Value("") : *otherwise;
  }
  if (name == "safe") return of;
  if (name == "string") return Value(printed(of));
  if (name == "tojson") return Value(as_json(of, arguments));
  if (name == "trim") {
    const Value* const chars = arguments.find_value(0, "chars");
    return Value(stripped(printed(of), chars == nullptr ? std::string(kPythonSpace) : text_in(*chars), true, true));
  }
  if (name == "title" && !has_other_cases(printed(of))) return Value(titled_words(printed(of)));
  for (const char* const method : {"upper", "lower", "capitalize", "title", "replace"}) {
    if (name == method) return text_method(printed(of), name, arguments);
  }
  if (name == "indent") return Value(indented(printed(of), arguments));
  if (name == "int" || name == "float") return as_number(of, name == "int", arguments.find(0, "default"));
  if (name == "round") return rounded(of, arguments);
  if (name == "abs") return is_true(apply_operator("<", of, Value(std::int64_t{0}))) ? negative_of(of) : of;
  if (name == "items") {
    if (of.is_undefined) return Value(ordered_json::array());
    if (!of.json.is_object()) fail_value("an object is needed", printed(of));
    return parts_of(of.json, "items");
  }
  if (name == "dictsort") return sorted_members(of, arguments);
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
  if (name == "lower" || name == "upper") {
    const std::string text = printed(of);
    const bool has_case = cased(text, true) != cased(text, false);
    return has_case && text_method(text, name, {}).json == text;
  }
  if (name == "sameas") return json.type() == against.json.type() && equal_values(json, against.json);
  if (const std::string sign = operator_of_test(name); !sign.empty()) {
    return is_true(apply_operator(sign, of, against));
  }
  if (name == "in") return is_true(apply_operator("in", of, against));
  if (name == "divisibleby") {
    const std::int64_t by = whole_in(against);
    return by != 0 && whole_in(of) % by == 0;
  }
  fail_value("a test is not understood", name);
}

}  // namespace plimsoll
