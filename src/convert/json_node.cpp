#include "convert/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/in_quotes.h"
#include "data/page_faults.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr const char* kRemedy = "get the file again from the program that wrote it, or leave it out";

std::string spelt(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "\"" : " or \"") + std::string(name) + "\"";
  return text;
}

std::string keys_of(const Json& object) {
  std::string keys;
  int shown = 0;
  for (const auto& item : object.items()) {
    if (++shown > 8) return keys + ", …";
    keys += (keys.empty() ? "" : ", ") + in_quotes(item.key());
  }
  return keys.empty() ? "an object without members" : "members " + keys;
}

}  // namespace

std::string JsonNode::where() const {
  std::string path;
  for (std::size_t i = 0; i < depth_; ++i) {
    if (steps_[i].name == nullptr) {
      path += fmt::format("[{}]", steps_[i].index);
    } else {
      path += (path.empty() ? "" : ".") + std::string(steps_[i].name);
    }
  }
  return path.empty() ? *file_ : fmt::format("{}, {}", *file_, path);
}

JsonNode JsonNode::step(const Json& value, Step step) const {
  JsonNode next(value, *file_);
  next.steps_ = steps_;
  next.depth_ = depth_;
  if (next.depth_ < next.steps_.size()) next.steps_[next.depth_++] = step;
  return next;
}

std::optional<JsonNode> JsonNode::find(std::initializer_list<const char*> names) const {
  if (!value_->is_object()) refuse("a value is not an object", "an object with " + spelt(names));
  for (const char* name : names) {
    const auto found = value_->find(name);
    if (found != value_->end() && !found->is_null()) return step(*found, {.name = name});
  }
  return std::nullopt;
}

JsonNode JsonNode::at(std::initializer_list<const char*> names) const {
  if (std::optional<JsonNode> found = find(names)) return *found;
  throw DataError({.what = "a member is missing",
                   .where = where(),
                   .found = keys_of(*value_),
                   .allowed = spelt(names),
                   .remedy = kRemedy});
}

std::size_t JsonNode::size() const {
  if (!value_->is_array()) refuse("a value is not a list", "a list");
  return value_->size();
}

JsonNode JsonNode::item(std::size_t index) const { return step((*value_)[index], {.index = index}); }

double JsonNode::number() const {
  const double number = value_->is_number() ? value_->get<double>() : std::nan("");
  if (!std::isfinite(number)) refuse("a value is not a number", "a finite number");
  return number;
}

std::int64_t JsonNode::whole() const {
  if (value_->is_number_integer()) return value_->get<std::int64_t>();
  if (value_->is_string()) {
    const std::string& text = value_->get_ref<const std::string&>();
    std::int64_t number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (!text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size()) return number;
  }
  refuse("a value is not a whole number", "a whole number");
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) refuse("a value is not text", "text");
  return value_->get_ref<const std::string&>();
}

void JsonNode::refuse(std::string what, std::string allowed, std::string remedy) const {
  throw DataError({.what = std::move(what),
                   .where = where(),
                   .found = shown(*value_),
                   .allowed = std::move(allowed),
                   .remedy = remedy.empty() ? kRemedy : std::move(remedy)});
}

Json parse_json_file(std::string_view text, const std::string& file) {
  Json json = parse_json(text, file);
  if (!json.is_discarded()) return json;
  const JsonFault fault = find_json_fault(text);
  throw DataError({.what = fault.is_cut         ? "JSON ends too early"
                           : fault.is_too_large ? "a number is too large for a double"
                                                : "a file is not JSON",
                   .where = fmt::format("{}, line {}, column {}", file, fault.line, fault.column),
                   .found = fault.found,
                   .allowed = "one whole JSON value in UTF-8",
                   .remedy = fault.is_cut ? "the file is truncated: write or copy it again" : kRemedy});
}

std::vector<JsonItem> list_items(std::string_view text) {
  std::vector<JsonItem> items;
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) return items;
  if (text[first] != '[') {
    items.push_back({.text = text.substr(first)});
    return items;
  }
  int depth = 0;
  bool in_text = false;
  std::size_t line = 1, begin = std::string_view::npos, begin_line = 1;
  const auto end_item = [&](std::size_t end) {
    while (begin != std::string_view::npos && std::string_view(" \t\r\n").find(text[end - 1]) != std::string_view::npos)
      --end;
    if (begin != std::string_view::npos) items.push_back({text.substr(begin, end - begin), begin_line});
    begin = std::string_view::npos;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
      continue;
    }
    const bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (depth == 1 && c == ',') {
      end_item(i);
      continue;
    }
    if (c == ']' || c == '}') --depth;
    if (depth == 0 && c == ']') {
      end_item(i);
      // Text after the list belongs to no item, so it becomes a separate one, which is then refused.
      const std::size_t more = text.find_first_not_of(" \t\r\n", i + 1);
      if (more != std::string_view::npos) items.push_back({text.substr(more), line});
      return items;
    }
    if (depth >= 1 && !space && begin == std::string_view::npos) {
      begin = i;
      begin_line = line;
    }
    if (c == '"') in_text = true;
    if (c == '[' || c == '{') ++depth;
  }
  // The list has no end: its last item is cut, and parsing it says so.
  items.push_back({begin == std::string_view::npos ? std::string_view("[") : text.substr(begin), begin_line});
  return items;
}

}  // namespace plimsoll
