#include "formats/json.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {

bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  if (nests_too_deep(text)) {
    throw DataError({.what = "JSON nests deeper than in any file of its kind",
                     .where = where,
                     .found = "more than " + counted(kMaxJsonDepth, "level"),
                     .allowed = fmt::format("at most {}", kMaxJsonDepth),
                     .remedy = "the file is damaged or was made to mislead: get it again"});
  }
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace plimsoll
