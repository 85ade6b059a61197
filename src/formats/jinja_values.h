// The values of a Jinja template and what it does with them: operators, filters, tests, methods (formats/jinja.h).
//
//   const JinjaValue roles = apply_filter(messages, "map", {.values = {}, .named = {{"attribute",
//   JinjaValue("role")}}});
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
};

struct JinjaArguments {
  std::vector<JinjaValue> values{};
  std::vector<std::pair<std::string, JinjaValue>> named{};

  // Returns the argument at `position`, or of that name; nullptr if there is none.
  const JinjaValue* find(std::size_t position, std::string_view name) const;
};

// Texts and lists that a template makes must not be longer than this; no chat is.
inline constexpr std::size_t kMostJinjaBytes = std::size_t{1} << 24, kMostJinjaItems = std::size_t{1} << 20;
// How deep lists and objects may be nested; below, how many bytes it takes to copy a value.
inline constexpr int kDeepestJinjaValue = 64;
std::size_t size_of(const JinjaValue& value);

// Each function throws JinjaFault for values that it does not support, and for an unknown name.

bool is_true(const JinjaValue& value);
// Returns what Python's str() gives; nothing for an undefined value.
std::string printed(const JinjaValue& value);
std::string text_in(const JinjaValue& value);
std::int64_t whole_in(const JinjaValue& value);
// Returns the items of a list, keys of an object or characters of a text; none for an undefined value.
std::vector<nlohmann::ordered_json> elements_of(const JinjaValue& value);

JinjaValue attribute_of(const JinjaValue& of, const std::string& name);
JinjaValue item_of(const JinjaValue& of, const JinjaValue& index);
// Returns of[begin:end:step], with null for those left out.
JinjaValue slice_of(const JinjaValue& of, const JinjaValue& begin, const JinjaValue& end, const JinjaValue& step);
// Applies + - * / // % ~ == != < <= > >= in to two values.
JinjaValue apply_operator(const std::string& sign, const JinjaValue& left, const JinjaValue& right);
JinjaValue negative_of(const JinjaValue& value);
JinjaValue apply_filter(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments);
bool passes_test(const JinjaValue& of, const std::string& name, const JinjaValue& against);
JinjaValue call_method(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments);

}  // namespace plimsoll
