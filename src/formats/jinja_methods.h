// The methods of texts and objects that a Jinja template may call (formats/jinja.h): those of Python's str and dict.
//
//   call_method(JinjaValue(" a "), "strip", {});   // "a"
#pragma once

#include <string>

#include "formats/jinja_arguments.h"

namespace plimsoll {

// Throw JinjaFault for an unknown name, and for values that it does not support. text_method() takes also a name that
// is a filter's, such as "upper".
JinjaValue call_method(const JinjaValue& of, const std::string& name, const JinjaArguments& arguments);
JinjaValue text_method(const std::string& text, const std::string& name, const JinjaArguments& arguments);

// Returns an object's keys, values or items (pairs of both), as `which` says.
JinjaValue parts_of(const nlohmann::ordered_json& object, const std::string& which);

}  // namespace plimsoll
