// The filters and tests of a Jinja template (formats/jinja.h).
//
//   apply_filter(messages, "map", {.values = {}, .named = {{"attribute", JinjaValue("role")}}});
//   passes_test(JinjaValue(4), "divisibleby", JinjaValue(2));   // true
#pragma once

#include <string>

#include "formats/jinja_arguments.h"

namespace plimsoll {

// Both throw JinjaFault for an unknown name, and for values that it does not support.
JinjaValue apply_filter(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments);
bool passes_test(const JinjaValue& of, const std::string& name, const JinjaValue& against);

}  // namespace plimsoll
