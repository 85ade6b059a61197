// What a call in a Jinja template is given, and what each filter and method takes (formats/jinja_filters.h,
// formats/jinja_methods.h).
//
//   constexpr std::array<JinjaSignature, 1> kMethods = {{{"get", "key default"}}};
//   check_arguments(kMethods, "method", "get", arguments);   // no more than two, none by another name
//   const JinjaValue* const key = arguments.find(0, "key");
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/jinja_values.h"

namespace plimsoll {

struct JinjaArguments {
  std::vector<JinjaValue> values{};
  std::vector<std::pair<std::string, JinjaValue>> named{};

  // Returns the argument at `position`, or of that name; nullptr if there is none.
  const JinjaValue* find(std::size_t position, std::string_view name) const;
  // Returns the same, and nullptr for null.
  const JinjaValue* find_value(std::size_t position, std::string_view name) const;
  // Returns true if there is such an argument, and it is true.
  bool asks(std::size_t position, std::string_view name) const;
};

// The names of a filter's or method's arguments: those that may be given by position, and those by name alone.
struct JinjaSignature {
  std::string_view name, places, names{};
};

// Throws JinjaFault for a name that has no signature, and for arguments that would be ignored.
void check_arguments(std::span<const JinjaSignature> signatures, const char* kind, const std::string& name,
                     const JinjaArguments& arguments);

}  // namespace plimsoll
