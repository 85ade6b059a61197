#include "formats/jinja_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "formats/jinja_syntax.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Token = JinjaToken;

// The limit for a tag, because its expression may be nested as deep as it is long.
constexpr std::size_t kMostTokens = 2000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Cuts a template into text and the tokens within braces.
class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where) : source_(source), where_(where) {}

  std::vector<Token> run() {
    // A template's last line feed is not part of it.
    if (source_.ends_with('\n')) source_.remove_suffix(1);
    while (at_ < source_.size()) {
      const std::size_t open = find_open(at_);
      add_text(open);
      if (open == source_.size()) break;
      if (source_[open + 1] == '#') {
        comment();
      } else {
        braces();
      }
    }
    tokens_.push_back({.kind = Token::Kind::kStop, .line = line_});
    return std::move(tokens_);
  }

 private:
  std::size_t find_open(std::size_t from) const {
    for (std::size_t at = source_.find('{', from); at != std::string_view::npos; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.size();
  }

  // Adds the text up to `open`, without the spaces that blocks remove.
  void add_text(std::size_t open) {
    std::string_view text = source_.substr(at_, open - at_);
    if (strips_next_) {
      while (!text.empty() && is_space(text.front())) advance(text);
    } else if (after_block_ && text.starts_with('\n')) {  // trim_blocks
      advance(text);
    }
    const int line = line_;
    line_ += static_cast<int>(std::ranges::count(text, '\n'));
    if (open < source_.size()) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (sign == '-') {
        while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
      } else if (sign != '+' && source_[open + 1] != '{') {  // lstrip_blocks
        std::size_t kept = text.size();
        while (kept > 0 && (text[kept - 1] == ' ' || text[kept - 1] == '\t')) --kept;
        const bool begins_line = kept == 0 ? (at_ == 0 || begins_line_) : text[kept - 1] == '\n';
        if (begins_line) text = text.substr(0, kept);
      }
    }
    begins_line_ = text.empty() ? begins_line_ : text.back() == '\n';
    if (!text.empty()) tokens_.push_back({.kind = Token::Kind::kText, .text = std::string(text), .line = line});
    at_ = open;
    strips_next_ = after_block_ = false;
  }
  void advance(std::string_view& text) {
    if (text.front() == '\n') {
      ++line_;
      begins_line_ = true;
    }
    text.remove_prefix(1);
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string_view::npos) fail_jinja(where_, line_, "a comment does not end", "{#");
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, end - at_), '\n'));
    strips_next_ = source_[end - 1] == '-';
    after_block_ = true;
    at_ = end + 2;
  }

  void braces() {
    const bool prints = source_[at_ + 1] == '{';
    tokens_.push_back({.kind = Token::Kind::kBegin, .text = prints ? "{{" : "{%", .line = line_});
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    int depth = 0;  // nesting of objects' braces
    const std::size_t most = tokens_.size() + kMostTokens;
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) line_ += source_[at_++] == '\n' ? 1 : 0;
      if (at_ >= source_.size()) fail_jinja(where_, line_, "a tag does not end", prints ? "{{" : "{%");
      const std::string_view rest = source_.substr(at_);
      const std::string_view close = prints ? "}}" : "%}";
      const bool dash = rest.size() > 2 && (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(close);
      if (depth == 0 && (dash || rest.starts_with(close))) {
        strips_next_ = dash && rest[0] == '-';
        after_block_ = !prints && !(dash && rest[0] == '+');
        at_ += dash ? 3 : 2;
        tokens_.push_back({.kind = Token::Kind::kEnd, .line = line_});
        if (prints) begins_line_ = false;
        return;
      }
      if (tokens_.size() > most) fail_jinja(where_, line_, "a tag is too long", "more than 2000 words and signs");
      if (rest[0] == '{') ++depth;
      if (rest[0] == '}') --depth;
      token(rest);
    }
  }

  void token(std::string_view rest) {
    const char c = rest[0];
    if (is_letter(c)) {
      std::size_t end = 1;
      while (end < rest.size() && (is_letter(rest[end]) || is_digit(rest[end]))) ++end;
      return push(Token::Kind::kName, rest.substr(0, end), end);
    }
    if (is_digit(c)) return number(rest);
    if (c == '"' || c == '\'') return string(rest);
    static constexpr std::array<std::string_view, 6> kPairs = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view pair : kPairs) {
      if (rest.starts_with(pair)) return push(Token::Kind::kOperator, pair, 2);
    }
    if (std::string_view("+-*/%~<>()[]{}.,:|=").find(c) == std::string_view::npos) {
      fail_jinja(where_, line_, "the template has a character that is not understood", std::string(1, c));
    }
    push(Token::Kind::kOperator, rest.substr(0, 1), 1);
  }
  void push(Token::Kind kind, std::string_view text, std::size_t length, ordered_json value = {}) {
    tokens_.push_back({.kind = kind, .text = std::string(text), .line = line_, .value = std::move(value)});
    at_ += length;
  }
  void number(std::string_view rest) {
    std::size_t end = 0;
    while (end < rest.size() && is_digit(rest[end])) ++end;
    const bool fraction = end + 1 < rest.size() && rest[end] == '.' && is_digit(rest[end + 1]);
    if (fraction) {
      ++end;
      while (end < rest.size() && is_digit(rest[end])) ++end;
    }
    const std::string_view text = rest.substr(0, end);
    ordered_json value;
    if (fraction) {
      double number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      value = number;
    } else {
      std::int64_t number = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
        fail_jinja(where_, line_, "a number is too large", std::string(text));
      }
      value = number;
    }
    push(Token::Kind::kNumber, text, end, std::move(value));
  }
  void string(std::string_view rest) {
    std::string text;
    std::size_t at = 1;
    for (; at < rest.size() && rest[at] != rest[0]; ++at) {
      if (rest[at] == '\n') ++line_;
      if (rest[at] != '\\' || at + 1 >= rest.size()) {
        text += rest[at];
        continue;
      }
      at = escape(rest, at + 1, text);
    }
    if (at >= rest.size()) fail_jinja(where_, line_, "a string does not end", std::string(rest.substr(0, 20)));
    push(Token::Kind::kString, {}, at + 1, text);
  }

  // Adds the character that is written as a backslash and what stands at `at`, as in Python; returns its last byte's
  // position.
  std::size_t escape(std::string_view rest, std::size_t at, std::string& text) {
    static constexpr std::string_view kLetters = "ntrabfv\\'\"", kMeant = "\n\t\r\a\b\f\v\\'\"";
    const char escaped = rest[at];
    if (const std::size_t letter = kLetters.find(escaped); letter != std::string_view::npos) {
      text += kMeant[letter];
      return at;
    }
    if (escaped == '\n') {  // the line goes on
      ++line_;
      return at;
    }
    const bool is_octal = escaped >= '0' && escaped <= '7';
    const std::size_t digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : escaped == 'U' ? 8 : 0;
    if (!is_octal && digits == 0) {
      if (escaped == 'N') fail_jinja(where_, line_, "an escape is not understood", "\\N");
      text += '\\';
      text += escaped;
      return at;
    }
    const std::size_t begin = is_octal ? at : at + 1, most = is_octal ? 3 : digits;
    std::uint32_t code_point = 0;
    const std::string_view given = rest.substr(begin, most);
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), code_point, is_octal ? 8 : 16);
    const auto read = static_cast<std::size_t>(end - given.data());
    const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
    if (error != std::errc() || (!is_octal && read != digits) || code_point > 0x10FFFF || is_surrogate) {
      fail_jinja(where_, line_, "an escape is not understood", fmt::format("\\{}", rest.substr(at, most + 1)));
    }
    append_utf8(code_point, text);
    return begin + read - 1;
  }

  std::string_view source_;
  const std::string& where_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool strips_next_ = false, after_block_ = false;
  bool begins_line_ = true;  // the line so far has only text that is left out
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<JinjaToken> jinja_tokens(std::string_view source, const std::string& where) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  return Lexer(text, where).run();
}

}  // namespace plimsoll
