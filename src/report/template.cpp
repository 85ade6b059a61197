#include "report/template.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "data/page.h"
#include "formats/json.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::json;
constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

std::string shown_text(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  return json_text(value);
}

bool is_empty(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();  // null, or a list or object without items
}

class Filler {
 public:
  explicit Filler(const Json& values) { scopes_.push_back(&values); }

  void fill(std::string_view text, std::string& out) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t open = text.find("{{", at);
      out += text.substr(at, open - at);
      if (open == std::string_view::npos) return;
      const bool raw = text.substr(open).starts_with("{{{");
      const std::size_t begin = open + (raw ? 3 : 2);
      const std::size_t end = text.find(raw ? "}}}" : "}}", begin);
      check(end != std::string_view::npos, "a place of the template does not end");
      std::string_view name = text.substr(begin, end - begin);
      at = end + (raw ? 3 : 2);
      if (name.starts_with('#') || name.starts_with('^')) {
        const bool inverted = name.front() == '^';
        name.remove_prefix(1);
        const std::size_t close = end_of_section(text, at, name);
        fill_section(name, inverted, text.substr(at, close - at), out);
        at = text.find("}}", close) + 2;
      } else {
        const std::string value = shown_text(look_up(name));
        out += raw ? value : escape_html(value);
      }
    }
  }

 private:
  const Json& look_up(std::string_view name) const {
    if (name == ".") return *scopes_.back();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (!(*scope)->is_object()) continue;
      const auto found = (*scope)->find(std::string(name));
      if (found != (*scope)->end()) return *found;
    }
    check(false, [&] { return fmt::format("the template's place '{}' has a value", name); });
    return *scopes_.front();
  }

  // Returns the offset of the tag that closes the section that begins at `at`; sections of one name may nest.
  static std::size_t end_of_section(std::string_view text, std::size_t at, std::string_view name) {
    const std::string close = fmt::format("{{{{/{}}}}}", name);
    const std::string open = fmt::format("{{{{#{}}}}}", name), inverted = fmt::format("{{{{^{}}}}}", name);
    for (int depth = 0;;) {
      const std::size_t end = text.find(close, at);
      check(end != std::string_view::npos, [&] { return fmt::format("the template's section '{}' ends", name); });
      const std::size_t next = std::min(text.find(open, at), text.find(inverted, at));
      if (next < end) {
        ++depth;
        at = next + open.size();
      } else if (depth-- == 0) {
        return end;
      } else {
        at = end + close.size();
      }
    }
  }

  void fill_section(std::string_view name, bool inverted, std::string_view body, std::string& out) {
    const Json& value = look_up(name);
    if (inverted) {
      if (is_empty(value)) fill(body, out);
      return;
    }
    if (is_empty(value)) return;
    if (!value.is_array()) return fill_in_scope(value, body, out);
    for (const Json& item : value) fill_in_scope(item, body, out);
  }
  void fill_in_scope(const Json& scope, std::string_view body, std::string& out) {
    scopes_.push_back(&scope);
    fill(body, out);
    scopes_.pop_back();
  }

  std::vector<const Json*> scopes_;
};

}  // namespace

std::string fill_template(std::string_view text, const Json& values) {
  std::string out;
  Filler(values).fill(text, out);
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  std::size_t bad = invalid_utf8_offset(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (i == bad || control) {
      out += kReplacement;
      if (i != bad) continue;
      const std::size_t next = invalid_utf8_offset(text.substr(i + 1));
      bad = next == std::string_view::npos ? next : next + i + 1;
      continue;
    }
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const Json& value) {
  const std::string plain = value.dump(-1, ' ', true, Json::error_handler_t::replace);  // ASCII: no line separators
  std::string out;
  out.reserve(plain.size() + plain.size() / 16);
  for (const char c : plain) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace plimsoll::report
