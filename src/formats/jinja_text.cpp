#include "formats/jinja_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

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

std::string json_dumps(const ordered_json& json, const JsonDumps& form, int depth) {
  if (json.is_number_float()) return float_text(json.get<double>());
  const auto dumped_text = [&form](const ordered_json& value) {
    return value.dump(-1, ' ', form.ascii, ordered_json::error_handler_t::replace);
  };
  if (!json.is_structured()) return dumped_text(json);
  const bool is_array = json.is_array();
  if (json.empty()) return is_array ? "[]" : "{}";
  const auto line = [&form](int levels) {
    std::string text;
    if (!form.indent) return text;
    text = "\n";
    for (int i = 0; i < levels; ++i) text += *form.indent;
    return text;
  };
  std::vector<std::pair<std::string, const ordered_json*>> members;
  for (const auto& [key, value] : json.items()) members.emplace_back(key, &value);
  if (form.sorted && !is_array) std::ranges::sort(members, {}, &std::pair<std::string, const ordered_json*>::first);
  std::string text;
  for (const auto& [key, value] : members) {
    if (!text.empty()) text += form.between;
    const std::string inner = json_dumps(*value, form, depth + 1);
    text += line(depth + 1) + (is_array ? inner : dumped_text(key) + form.after_key + inner);
  }
  return (is_array ? "[" : "{") + text + line(depth) + (is_array ? "]" : "}");
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

bool has_other_cases(std::string_view text) {
  // Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee, phonetic and letterlike blocks, and those of historic
  // scripts.
  constexpr std::pair<std::uint32_t, std::uint32_t> kBlocks[] = {
      {0xC0, 0x24F},      {0x250, 0x2AF},     {0x345, 0x345},     {0x370, 0x58F},    {0x10A0, 0x10FF},
      {0x13A0, 0x13FF},   {0x1C80, 0x1CBF},   {0x1D00, 0x1DBF},   {0x1E00, 0x1FFF},  {0x2126, 0x2132},
      {0x214E, 0x214E},   {0x2160, 0x2188},   {0x24B6, 0x24E9},   {0x2C00, 0x2DFF},  {0xA640, 0xA69F},
      {0xA720, 0xA7FF},   {0xAB30, 0xABBF},   {0xFB00, 0xFB17},   {0xFF21, 0xFF5A},  {0x10400, 0x105FF},
      {0x10C80, 0x10CFF}, {0x118A0, 0x118DF}, {0x16E40, 0x16E9F}, {0x1E900, 0x1E943}};
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    if (lead < 0x80) continue;
    std::uint32_t code_point = lead & (lead < 0xE0 ? 0x1FU : lead < 0xF0 ? 0x0FU : 0x07U);
    for (; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++at) {
      code_point = (code_point << 6) | (static_cast<unsigned char>(text[at]) & 0x3FU);
    }
    const bool is_sign = code_point == 0xD7 || code_point == 0xF7;  // × and ÷
    const auto holds = [code_point](auto block) { return code_point >= block.first && code_point <= block.second; };
    if (code_point == 0xB5 || (!is_sign && std::ranges::any_of(kBlocks, holds))) return true;
  }
  return false;
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

std::string titled_words(std::string text) {
  bool begins = true;
  for (char& c : text) {
    c = cased(std::string(1, c), begins)[0];
    begins = std::string_view("-({[< \t\n\r\f\v").find(c) != std::string_view::npos;
  }
  return text;
}

}  // namespace plimsoll
