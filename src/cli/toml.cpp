#include "cli/toml.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// Each part of a key is a table in another, and they are destroyed by recursion. Text that is not TOML rarely has many
// dots without a character between them that ends a key.
void refuse_deep_keys(std::string_view text) {
  constexpr std::string_view kEnds = ",=[{\n";
  constexpr int kMostParts = 100;
  int parts = 0;
  std::size_t line = 1, line_begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const char quote = text[i]; quote == '"' || quote == '\'') {  // strings of several lines may be scanned
      for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i) {
        if (quote == '"' && text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
      }
      if (i == text.size()) return;
    }
    if (kEnds.find(text[i]) != std::string_view::npos) parts = 0;
    if (text[i] == '\n') {
      ++line;
      line_begin = i + 1;
    }
    if (text[i] == '.' && ++parts == kMostParts) {
      throw TomlError("a key has more than 100 parts", line, i - line_begin + 1);
    }
  }
}

std::string as_written(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

Json converted(const toml::node& node, const std::string& path, TomlFile& file);

Json converted(const toml::table& table, const std::string& path, TomlFile& file) {
  std::vector<std::pair<const toml::key*, const toml::node*>> members;
  for (const auto& [key, value] : table) members.emplace_back(&key, &value);
  const auto position = [](const auto& member) {
    const toml::source_position& begin = member.first->source().begin;
    return std::pair(begin.line, begin.column);
  };
  std::ranges::sort(members, {}, position);
  Json object = Json::object();
  for (const auto& [key, value] : members) {
    const std::string name(key->str()), at = path.empty() ? name : path + "." + name;
    file.lines[at] = key->source().begin.line;
    object[name] = converted(*value, at, file);
  }
  return object;
}

Json converted(const toml::node& node, const std::string& path, TomlFile& file) {
  if (const toml::table* const table = node.as_table()) return converted(*table, path, file);
  if (const toml::array* const array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& element : *array) {
      TomlFile within;
      list.push_back(converted(element, "", within));
    }
    return list;
  }
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const whole = node.as_integer()) return whole->get();
  if (const auto* const truth = node.as_boolean()) return truth->get();
  if (const auto* const number = node.as_floating_point(); number != nullptr && std::isfinite(number->get())) {
    return number->get();
  }
  return as_written(node);
}

}  // namespace

TomlFile parse_toml(std::string_view text) {
  refuse_deep_keys(text);
  try {
    TomlFile file;
    file.values = converted(toml::parse(text), "", file);
    return file;
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    std::string_view fault = error.description();  // "Error while parsing string: encountered end-of-file"
    if (fault.starts_with("Error while parsing")) fault.remove_prefix(std::min(fault.find(": ") + 2, fault.size()));
    throw TomlError(std::string(fault), at.line, at.column);
  }
}

}  // namespace plimsoll
