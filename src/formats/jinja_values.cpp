#include "formats/jinja_values.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "formats/jinja_text.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Value = JinjaValue;

std::optional<bool> compared(const std::string& sign, int order) {
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  if (sign == ">") return order > 0;
  if (sign == ">=") return order >= 0;
  return std::nullopt;
}

Value power(const ordered_json& a, const ordered_json& b) {
  const double found = std::pow(a.get<double>(), b.get<double>());
  constexpr double kMost = 1e15;
  if (!std::isfinite(found) || std::abs(found) > kMost) fail_value("a number is too large", python_str(a));
  const bool is_whole = a.is_number_integer() && b.is_number_integer() && b.get<double>() >= 0;
  return is_whole ? Value(static_cast<std::int64_t>(found)) : Value(found);
}

Value arithmetic(const std::string& sign, const ordered_json& a, const ordered_json& b) {
  const auto x = a.get<double>(), y = b.get<double>();
  if (const std::optional<bool> found = compared(sign, x < y ? -1 : x > y ? 1 : 0)) return Value(*found);
  if (sign == "**") return power(a, b);
  const bool divides = sign == "/" || sign == "//" || sign == "%";
  if (divides && y == 0) fail_value("it divides by 0", python_str(a));
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
  if (std::max(std::abs(x), std::abs(y)) > kMost) fail_value("a number is too large", python_str(a));
  if (divides) {  // rounded down
    const std::int64_t below = i / j - ((i % j != 0 && (i < 0) != (j < 0)) ? 1 : 0);
    return Value(sign == "//" ? below : i - j * below);
  }
  return Value(sign == "+" ? i + j : sign == "-" ? i - j : i * j);
}

bool contains(const Value& in, const Value& what) {
  if (in.json.is_string()) return in.json.get_ref<const std::string&>().find(text_in(what)) != std::string::npos;
  if (in.json.is_object()) return what.json.is_string() && in.json.contains(what.json.get<std::string>());
  return std::ranges::any_of(elements_of(in), [&](const ordered_json& item) { return equal_values(item, what.json); });
}

Value joined(std::string left, const std::string& right) {
  check_jinja_length(left.size() + right.size());
  return Value(std::move(left += right));
}

std::string times(const std::string& text, std::int64_t count) {
  if (count > 0)
    check_jinja_length(std::max<std::size_t>(text.size(), 1) *
                       static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 30)));
  std::string out;
  for (; count > 0; --count) out += text;
  return out;
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

void fail_value(std::string what, std::string found) { throw JinjaFault{std::move(what), std::move(found)}; }

void check_jinja_length(std::size_t bytes) {
  if (bytes > kMostJinjaBytes) fail_value("it makes more text than any chat has", std::to_string(bytes) + " bytes");
}

bool equal_values(const ordered_json& a, const ordered_json& b) {
  if (a.is_boolean() != b.is_boolean() && (a.is_number() || b.is_number())) {
    const auto number = [](const ordered_json& x) {
      return x.is_boolean() ? (x.get<bool>() ? 1.0 : 0.0) : x.get<double>();
    };
    return number(a) == number(b);
  }
  return a == b;
}

nlohmann::ordered_json number_in(const JinjaValue& value) {
  if (value.json.is_boolean()) return std::int64_t{value.json.get<bool>() ? 1 : 0};
  if (!value.json.is_number()) {
    fail_value("a number is needed", value.is_undefined ? "nothing" : python_str(value.json));
  }
  return value.json;
}

std::size_t size_of(const JinjaValue& value) {
  if (depth_of(value.json) > kDeepestJinjaValue) fail_value("a value is nested too deep", "more than 64 levels");
  const std::size_t size = size_of_json(value.json);
  if (size > kMostJinjaBytes) fail_value("a value is larger than any chat", std::to_string(size) + " bytes");
  return size;
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
  if (!value.json.is_string()) fail_value("a text is needed", value.is_undefined ? "nothing" : python_str(value.json));
  return value.json.get<std::string>();
}

std::int64_t whole_in(const JinjaValue& value) {
  constexpr double kMost = 1e15;
  const ordered_json number = number_in(value);
  if (number.is_number_float() || std::abs(number.get<double>()) > kMost)
    fail_value("a whole number is needed", python_str(number));
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
      fail_value("a text is longer than any chat's", std::to_string(text.size()) + " bytes");
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      all.emplace_back(text.substr(begins[i], begins[i + 1] - begins[i]));
    }
  } else {
    fail_value("a list is needed", python_str(value.json));
  }
  return all;
}

JinjaValue attribute_of(const JinjaValue& of, const std::string& name) {
  if (of.members) {
    const auto found = of.members->find(name);
    return found == of.members->end() ? Value::undefined() : found->second;
  }
  if (of.is_undefined) fail_value("a member is asked of a value that is not there", name);
  if (!of.json.is_object()) return Value::undefined();
  const auto found = of.json.find(name);
  return found == of.json.end() ? Value::undefined() : Value(*found);
}

JinjaValue item_of(const JinjaValue& of, const JinjaValue& index) {
  if (of.is_undefined) fail_value("an item is asked of a value that is not there", printed(index));
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
  if (by == 0) fail_value("a slice has steps of 0", "0");
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
        left.is_undefined == right.is_undefined && left.members == right.members && equal_values(left.json, right.json);
    return Value((sign == "==") == same);
  }
  if (sign == "in") return Value(contains(right, left));
  if (sign == "+" && left.json.is_string()) return joined(left.json.get<std::string>(), text_in(right));
  if (sign == "+" && left.json.is_array() && right.json.is_array()) {
    if (left.json.size() + right.json.size() > kMostJinjaItems) fail_value("it makes a longer list than any chat", "+");
    ordered_json list = left.json;
    for (const ordered_json& item : right.json) list.push_back(item);
    return Value(std::move(list));
  }
  if (left.json.is_string() && right.json.is_string()) {
    const int order = left.json.get_ref<const std::string&>().compare(right.json.get_ref<const std::string&>());
    if (const std::optional<bool> found = compared(sign, order)) return Value(*found);
  }
  if (sign == "*" && left.json.is_string()) return Value(times(left.json.get<std::string>(), whole_in(right)));
  if (sign == "%" && left.json.is_string()) fail_value("texts are not formatted by %", python_str(left.json));
  return arithmetic(sign, number_in(left), number_in(right));
}

JinjaValue negative_of(const JinjaValue& value) {
  const ordered_json number = number_in(value);
  return number.is_number_float() ? Value(-number.get<double>()) : arithmetic("-", std::int64_t{0}, number);
}

}  // namespace plimsoll
