// Parses JSON from untrusted files. Parsing a deeply nested value is harmless, but copying, comparing and printing
// recurse for each level: some ten thousand brackets would overflow the stack. So the depth is limited, and every JSON
// text is checked before it is parsed into values.
//
//   const nlohmann::json config = parse_json(read_text_file(path, kLimit), path.string());
//   if (!config.is_object()) throw DataError({.what = "this is no JSON object", .where = path.string()});
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

// Valid files nest 4 to 10 levels deep.
inline constexpr int kMaxJsonDepth = 100;

// True if lists and objects are nested deeper than kMaxJsonDepth. It makes one pass; for a text that is not JSON the
// result is unspecified.
bool nests_too_deep(std::string_view text);

// Returns a value that `is_discarded()` if the text is not JSON. Throws DataError at `where` if it nests too deep;
// without `where` such a text is discarded, too.
nlohmann::json parse_json(std::string_view text, const std::string& where);
nlohmann::json parse_json(std::string_view text);
// Does the same, and keeps the order of objects' keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// Returns the text of a value for a file or a terminal; indented if `indent` is not negative. Bytes that are not UTF-8,
// which a path may have, become U+FFFD.
template <typename Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Returns the message of an exception of the library, without its name and number.
std::string json_fault(const nlohmann::json::exception& error);

// Why a text is not JSON, and where a parser notices it; lines and columns count from 1, columns in bytes.
struct JsonFault {
  std::size_t line = 1, column = 1;
  bool is_cut = false;        // the text ends too early
  bool is_too_large = false;  // it is JSON, but a number is beyond a double's range
  std::string found{};        // the text around the place, or the number, in quotes
};
// Precondition: parse_json discards the text, and it does not nest too deep. It parses once more.
JsonFault find_json_fault(std::string_view text);

// Returns the first key that an object has twice, at any depth: parsers silently keep the last. Keys are compared as
// they are written, escapes included. Precondition: the text is JSON and does not nest too deep.
std::optional<std::string> repeated_key(std::string_view text);

}  // namespace plimsoll
