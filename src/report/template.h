// Fills a template's places with values. Whatever a value holds, it is text in the result and never markup: page names
// and labels come from strangers.
//
//   {{name}}            the value of that name, escaped for HTML
//   {{{name}}}          the value as it is: for style, script and script_json alone
//   {{#name}}…{{/name}} once for each item of a list, or once for a value that is not empty; in it, names are
//                       looked up in the item first, and {{.}} is the item itself
//   {{^name}}…{{/name}} if the value is null, false, zero, empty text or an empty list
//
//   const std::string html = fill_template("<b>{{name}}</b>", {{"name", "<i>"}});   // "<b>&lt;i&gt;</b>"
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plimsoll::report {

// Throws InternalError for a name that no scope has, and for a section that does not end.
std::string fill_template(std::string_view text, const nlohmann::json& values);

// Text as HTML shows it, also within quotes; bytes that are not UTF-8 and control characters become U+FFFD.
std::string escape_html(std::string_view text);

// JSON that is safe within a script element, whatever its texts say: no '<', '>', '&' or line separator is in it.
std::string script_json(const nlohmann::json& value);

}  // namespace plimsoll::report
