// The values of a Jinja template, and what its operators do with them (formats/jinja.h).
//
//   apply_operator("~", JinjaValue("a"), JinjaValue(1));   // "a1"
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

// What an expression gives: JSON, a namespace, or nothing at all (`undefined`).
struct JinjaValue {
  nlohmann::ordered_json json{};
  bool is_undefined = false;
  std::shared_ptr<std::map<std::string, JinjaValue>> members{};  // of a namespace

  JinjaValue() = default;
  JinjaValue(nlohmann::ordered_json value) : json(std::move(value)) {}  // NOLINT: what JSON is, is a value
  static JinjaValue undefined() {
    JinjaValue value;
    value.is_undefined = true;
    return value;
  }
};

// What is wrong with an operation; the caller, which knows the template's line, adds the place.
struct JinjaFault {
  std::string what, found;
  std::string allowed{};  // empty: the Jinja that is supported
};

// Texts and lists that a template makes must not be longer than this; no chat is.
inline constexpr std::size_t kMostJinjaBytes = std::size_t{1} << 24, kMostJinjaItems = std::size_t{1} << 20;
// How deep lists and objects may be nested; below, how many bytes it takes to copy a value.
inline constexpr int kDeepestJinjaValue = 64;
std::size_t size_of(const JinjaValue& value);

// Throws the fault.
[[noreturn]] void fail_value(std::string what, std::string found);
// Throws JinjaFault for a text of more than kMostJinjaBytes.
void check_jinja_length(std::size_t bytes);

// Each function throws JinjaFault for values that it does not support.

bool is_true(const JinjaValue& value);
// Returns what Python's str() gives; nothing for an undefined value.
std::string printed(const JinjaValue& value);
std::string text_in(const JinjaValue& value);
std::int64_t whole_in(const JinjaValue& value);
// Returns a number, or that of a boolean.
nlohmann::ordered_json number_in(const JinjaValue& value);
// True for values that Python's == finds equal: true is 1.
bool equal_values(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);
// Returns the items of a list, keys of an object or characters of a text; none for an undefined value.
std::vector<nlohmann::ordered_json> elements_of(const JinjaValue& value);

JinjaValue attribute_of(const JinjaValue& of, const std::string& name);
JinjaValue item_of(const JinjaValue& of, const JinjaValue& index);
// Returns of[begin:end:step], with null for those left out.
JinjaValue slice_of(const JinjaValue& of, const JinjaValue& begin, const JinjaValue& end, const JinjaValue& step);
// Applies + - * / // % ** ~ == != < <= > >= in to two values.
JinjaValue apply_operator(const std::string& sign, const JinjaValue& left, const JinjaValue& right);
JinjaValue negative_of(const JinjaValue& value);

}  // namespace plimsoll
