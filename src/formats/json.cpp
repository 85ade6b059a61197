#include "formats/json.h"

#include <fmt/format.h>

#include <set>
#include <vector>

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

namespace {

// The library takes a NUL byte for the text's end, whatever follows.
nlohmann::json parse_flat(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  if (nests_too_deep(text)) {
    throw DataError({.what = "JSON nests deeper than in any file of its kind",
                     .where = where,
                     .found = "more than " + counted(kMaxJsonDepth, "level"),
                     .allowed = fmt::format("at most {}", kMaxJsonDepth),
                     .remedy = "the file is damaged or was made to mislead: get it again"});
  }
  return parse_flat(text);
}

nlohmann::json parse_json(std::string_view text) {
  return nests_too_deep(text) ? nlohmann::json(nlohmann::json::value_t::discarded) : parse_flat(text);
}

std::string json_fault(const nlohmann::json::exception& error) {
  const std::string text = error.what();  // "[json.exception.type_error.302] type must be string, but is number"
  return text.starts_with('[') && text.find("] ") != std::string::npos ? text.substr(text.find("] ") + 2) : text;
}

std::optional<std::string> repeated_key(std::string_view text) {
  std::vector<std::set<std::string_view>> open;  // the keys of each open object; a list has none
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      open.emplace_back();
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    } else if (c == '"') {
      const std::size_t begin = ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      const std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
      if (next == std::string_view::npos || text[next] != ':' || open.empty()) continue;
      const std::string_view key = text.substr(begin, i - begin);
      if (!open.back().insert(key).second) return std::string(key);
    }
  }
  return std::nullopt;
}

}  // namespace plimsoll
