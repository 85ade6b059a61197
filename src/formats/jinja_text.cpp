#include "formats/jinja_text.h"

#include <fmt/format.h>

#include "formats/json.h"

namespace plimsoll {

using nlohmann::ordered_json;

namespace {

// Bytes that are not UTF-8, which a template may have, become U+FFFD.
std::string dumped(const ordered_json& json) { return json_text(json); }

std::string float_text(double number) {
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

// A string as in Python's repr.
std::string python_quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\\' || c == quote) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

std::string python_str(const ordered_json& json, bool is_inner) {
  if (json.is_null()) return "None";
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  if (json.is_string()) return is_inner ? python_quoted(json.get<std::string>()) : json.get<std::string>();
  if (json.is_number_float()) return float_text(json.get<double>());
  if (json.is_number()) return dumped(json);
  std::string text;
  if (json.is_array()) {
    for (const ordered_json& item : json) text += (text.empty() ? "" : ", ") + python_str(item, true);
    return "[" + text + "]";
  }
  for (const auto& [key, value] : json.items()) {
    text += (text.empty() ? "" : ", ") + python_quoted(key) + ": " + python_str(value, true);
  }
  return "{" + text + "}";
}

std::string json_dumps(const ordered_json& json, int indent, int depth) {
  if (json.is_number_float()) return float_text(json.get<double>());
  if (!json.is_structured()) return dumped(json);
  const bool is_array = json.is_array();
  if (json.empty()) return is_array ? "[]" : "{}";
  const std::string line = indent < 0 ? "" : "\n" + std::string(static_cast<std::size_t>(indent * (depth + 1)), ' ');
  std::string text;
  const auto add = [&](const std::string& item) {
    if (!text.empty()) text += indent < 0 ? ", " : ",";
    text += line + item;
  };
  for (const auto& [key, value] : json.items()) {
    const std::string inner = json_dumps(value, indent, depth + 1);
    add(is_array ? inner : dumped(key) + ": " + inner);
  }
  const std::string end = indent < 0 ? "" : "\n" + std::string(static_cast<std::size_t>(indent * depth), ' ');
  return (is_array ? "[" : "{") + text + end + (is_array ? "]" : "}");
}

std::vector<std::size_t> character_begins(std::string_view text) {
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U) begins.push_back(at);
  }
  begins.push_back(text.size());
  return begins;
}

std::size_t characters_off(std::string_view text, std::string_view of, bool at_begin) {
  if (text.empty()) return 0;
  std::size_t length = 1;
  const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U; };
  if (at_begin) {
    while (length < text.size() && continues(length)) ++length;
  } else {
    while (length < text.size() && continues(text.size() - length)) ++length;
  }
  const std::string_view one = at_begin ? text.substr(0, length) : text.substr(text.size() - length);
  for (std::size_t at = of.find(one); at != std::string_view::npos; at = of.find(one, at + 1)) {
    const bool begins = (static_cast<unsigned char>(of[at]) & 0xC0U) != 0x80U;
    const std::size_t end = at + length;
    if (begins && (end == of.size() || (static_cast<unsigned char>(of[end]) & 0xC0U) != 0x80U)) return length;
  }
  return 0;
}

std::string stripped(std::string_view text, std::string_view of, bool left, bool right) {
  while (left) {
    const std::size_t length = characters_off(text, of, true);
    if (length == 0) break;
    text.remove_prefix(length);
  }
  while (right) {
    const std::size_t length = characters_off(text, of, false);
    if (length == 0) break;
    text.remove_suffix(length);
  }
  return std::string(text);
}

std::string cased(std::string text, bool upper) {
  for (char& c : text) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string capitalized(const std::string& text) {
  return text.empty() ? text : cased(text.substr(0, 1), true) + cased(text.substr(1), false);
}
std::string titled(std::string text) {
  bool begins = true;
  for (char& c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    c = cased(std::string(1, c), begins)[0];
    begins = !letter;
  }
  return text;
}

}  // namespace plimsoll
