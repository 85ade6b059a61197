// Cuts a Jinja template into text and the tokens within braces (formats/jinja_syntax.h).
//
//   const std::vector<JinjaToken> tokens = jinja_tokens("{{ a }}", "here");   // kBegin, kName, kEnd, kStop
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct JinjaToken {
  enum class Kind : std::uint8_t { kText, kBegin, kEnd, kName, kString, kNumber, kOperator, kStop };
  Kind kind = Kind::kStop;
  std::string text{};  // of kBegin: "{{" or "{%"
  int line = 0;
  nlohmann::ordered_json value{};  // of a string or number
};

// Text is without the white space that tags take (trim_blocks, lstrip_blocks, "-"). The last token is kStop. Throws
// DataError naming the line of an invalid token.
std::vector<JinjaToken> jinja_tokens(std::string_view source, const std::string& where);

}  // namespace plimsoll
