#include "formats/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/in_quotes.h"

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
template <typename Json = nlohmann::json>
Json parse_flat(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
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

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  using Json = nlohmann::ordered_json;
  return nests_too_deep(text) ? Json(Json::value_t::discarded) : parse_flat<Json>(text);
}

std::string json_fault(const nlohmann::json::exception& error) {
  const std::string text = error.what();  // "[json.exception.type_error.302] type must be string, but is number"
  return text.starts_with('[') && text.find("] ") != std::string::npos ? text.substr(text.find("] ") + 2) : text;
}

JsonFault find_json_fault(std::string_view text) {
  constexpr std::size_t kBefore = 20, kShown = 40;
  JsonFault fault;
  std::size_t at = text.find('\0'), begin = at, size = kShown;
  if (at == std::string_view::npos) {
    at = text.size();
    try {
      [[maybe_unused]] const nlohmann::json again = nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
      at = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    } catch (const nlohmann::json::exception& error) {
      // "number overflow parsing '1e400'"
      const std::string fact = json_fault(error);
      const std::size_t quote = fact.find('\'') + 1, end = fact.rfind('\'');
      const std::string number = quote > 0 && end > quote ? fact.substr(quote, end - quote) : std::string();
      const std::size_t found = text.find(number);
      fault.is_too_large = true;
      begin = at = found == std::string_view::npos ? 0 : found;
      size = number.size();
    }
    fault.is_cut = at >= text.size();
  }
  if (!fault.is_too_large) begin = at < kBefore ? 0 : at - kBefore;
  const std::string_view before = text.substr(0, at);
  fault.line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  fault.column = at - (before.rfind('\n') + 1) + 1;  // rfind + 1 is 0 where there is none
  fault.found = in_quotes(text.substr(begin, size));
  return fault;
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
