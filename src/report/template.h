// Fills a template's places with values. A value always becomes text in the result and never markup, because page names
// and labels come from untrusted sources.
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

// Throws InternalError for a name that is in no scope, and for a section that does not end.
std::string fill_template(std::string_view text, const nlohmann::json& values);

// Returns the text as HTML, also for use within quotes; bytes that are not UTF-8 and control characters become U+FFFD.
std::string escape_html(std::string_view text);

// Returns JSON that is safe within a script element, whatever its texts: it has no '<', '>', '&' or line separator.
std::string script_json(const nlohmann::json& value);

}  // namespace plimsoll::report
