// Python's string functions, for what a Jinja template does with values (formats/jinja_values.h). Texts are UTF-8 and
// counted in characters.
//
//   python_str({1, "a", nullptr});                          // "[1, 'a', None]"
//   stripped("  a\u3000", kPythonSpace, true, true);        // "a"
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Returns what str() gives; for a value within a list or object (`is_inner`), what repr() gives.
std::string python_str(const nlohmann::ordered_json& json, bool is_inner = false);

// How json.dumps writes a value: `indent` is each level's, or nothing for one line.
struct JsonDumps {
  bool ascii = false, sorted = false;
  std::optional<std::string> indent{};
  std::string between = ", ", after_key = ": ";
};
// Returns what json.dumps gives.
std::string json_dumps(const nlohmann::ordered_json& json, const JsonDumps& form = {}, int depth = 0);

// Returns where each character begins, and the end.
std::vector<std::size_t> character_begins(std::string_view text);

// These characters are white space to str.isspace.
inline constexpr std::string_view kPythonSpace =
    "\t\n\v\f\r\x1C\x1D\x1E\x1F \xC2\x85\xC2\xA0\xE1\x9A\x80\xE2\x80\x80\xE2\x80\x81\xE2\x80\x82\xE2\x80\x83"
    "\xE2\x80\x84\xE2\x80\x85\xE2\x80\x86\xE2\x80\x87\xE2\x80\x88\xE2\x80\x89\xE2\x80\x8A\xE2\x80\xA8\xE2\x80\xA9"
    "\xE2\x80\xAF\xE2\x81\x9F\xE3\x80\x80";

// Returns the length of the character that begins (or ends) `text` if it is one of those in `of`, else 0.
std::size_t characters_off(std::string_view text, std::string_view of, bool at_begin);
// Returns `text` without these characters at its ends.
std::string stripped(std::string_view text, std::string_view of, bool left, bool right);

// True if a text may have letters beyond ASCII with upper and lower case: of the scripts that have both.
bool has_other_cases(std::string_view text);
// Change ASCII letters alone.
std::string cased(std::string text, bool upper);
std::string capitalized(const std::string& text);
std::string titled(std::string text);
// Does it as Jinja's filter, whose words begin behind spaces, hyphens and opening brackets alone.
std::string titled_words(std::string text);

}  // namespace plimsoll
