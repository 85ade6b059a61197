#include "formats/jinja_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "formats/jinja_tokens.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Expression = JinjaExpression;
using Statement = JinjaStatement;
using Token = JinjaToken;

constexpr int kDeepestNesting = 200;

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& where) : tokens_(std::move(tokens)), where_(where) {}

  JinjaBlock run() {
    JinjaBlock block = statements({});
    if (token().kind != Token::Kind::kStop) fail("a tag ends what was not begun", token().text);
    return block;
  }

 private:
  [[noreturn]] void fail(std::string what, std::string found) const {
    fail_jinja(where_, token().line, std::move(what), std::move(found));
  }
  const Token& token() const { return tokens_[at_]; }
  bool is(std::string_view text) const {
    return (token().kind == Token::Kind::kOperator || token().kind == Token::Kind::kName) && token().text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail(fmt::format("'{}' is missing", text), token().text);
  }
  void end_tag() {
    if (token().kind != Token::Kind::kEnd) fail("a tag has more than is understood", token().text);
    ++at_;
  }
  std::string name() {
    if (token().kind != Token::Kind::kName) fail("a name is missing", token().text);
    return tokens_[at_++].text;
  }

  // Parses statements up to a tag with one of these names, which is not consumed.
  JinjaBlock statements(const std::vector<std::string_view>& ends) {
    const Depth depth(*this);
    JinjaBlock block;
    while (token().kind != Token::Kind::kStop) {
      const int line = token().line;
      if (token().kind == Token::Kind::kText) {
        block.push_back({.kind = Statement::Kind::kText, .line = line, .text = tokens_[at_++].text});
        continue;
      }
      if (token().text == "{{") {
        ++at_;
        block.push_back({.kind = Statement::Kind::kPrint, .line = line, .expressions = {expression()}});
        end_tag();
        continue;
      }
      const std::string& word = tokens_[at_ + 1].text;
      if (tokens_[at_ + 1].kind == Token::Kind::kName && std::ranges::find(ends, word) != ends.end()) return block;
      ++at_;
      block.push_back(statement(name(), line));
    }
    if (!ends.empty()) fail(fmt::format("'{}' is missing", ends.back()), "the template's end");
    return block;
  }
  // Returns whether the tag has that name, and consumes it if so.
  bool take_tag(std::string_view word) {
    if (token().kind != Token::Kind::kBegin || tokens_[at_ + 1].text != word) return false;
    at_ += 2;
    return true;
  }

  Statement statement(const std::string& word, int line) {
    if (word == "for") return for_loop(line);
    if (word == "if") return condition(line);
    if (word == "set") return assignment(line);
    if (word == "macro") return macro(line);
    if (word == "break" || word == "continue") {
      end_tag();
      return {.kind = word == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue, .line = line};
    }
    if (word == "generation") {
      end_tag();
      Statement block{.kind = Statement::Kind::kGeneration, .line = line, .blocks = {statements({"endgeneration"})}};
      take_tag("endgeneration");
      end_tag();
      return block;
    }
    fail_jinja(where_, line, "a tag is not understood", word);
  }

  Statement for_loop(int line) {
    Statement loop{.kind = Statement::Kind::kFor, .line = line};
    const bool bracket = take("(");
    do {
      loop.names.push_back(name());
    } while (take(","));
    if (bracket) expect(")");
    expect("in");
    loop.expressions.push_back(either());
    if (take("if")) loop.expressions.push_back(expression());
    end_tag();
    const std::size_t body = at_;
    loop.blocks.push_back(statements({"else", "endfor"}));
    const auto is_loop = [](const Token& token) { return token.kind == Token::Kind::kName && token.text == "loop"; };
    loop.reads_loop = std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(body),
                                  tokens_.begin() + static_cast<std::ptrdiff_t>(at_), is_loop);
    if (take_tag("else")) {
      end_tag();
      loop.blocks.push_back(statements({"endfor"}));
    }
    take_tag("endfor");
    end_tag();
    return loop;
  }

  Statement condition(int line) {
    Statement choice{.kind = Statement::Kind::kIf, .line = line};
    do {
      choice.expressions.push_back(expression());
      end_tag();
      choice.blocks.push_back(statements({"elif", "else", "endif"}));
    } while (take_tag("elif"));
    if (take_tag("else")) {
      end_tag();
      choice.blocks.push_back(statements({"endif"}));
    }
    take_tag("endif");
    end_tag();
    return choice;
  }

  Statement assignment(int line) {
    Statement set{.kind = Statement::Kind::kSet, .line = line, .names = {name()}};
    if (take(".")) set.names.push_back(name());
    if (take("=")) {
      set.expressions.push_back(tuple());
      end_tag();
      return set;
    }
    end_tag();
    set.blocks.push_back(statements({"endset"}));
    take_tag("endset");
    end_tag();
    return set;
  }

  Statement macro(int line) {
    Statement made{.kind = Statement::Kind::kMacro, .line = line, .names = {name()}};
    expect("(");
    while (!take(")")) {
      if (made.names.size() > 1) expect(",");
      made.names.push_back(name());
      if (take("=")) {
        made.expressions.push_back(expression());
      } else if (!made.expressions.empty()) {
        fail("a parameter without a default follows one with a default", made.names.back());
      }
    }
    end_tag();
    made.blocks.push_back(statements({"endmacro"}));
    take_tag("endmacro");
    end_tag();
    return made;
  }

  // --- expressions --------------------------------------------------------------------------------------------------
  Expression make(Expression::Kind kind, std::vector<Expression> items, std::string text = {}) const {
    return {.kind = kind, .line = token().line, .text = std::move(text), .items = std::move(items)};
  }
  Expression literal(ordered_json value) const {
    return {.kind = Expression::Kind::kLiteral, .line = token().line, .value = std::move(value)};
  }

  // Parses a, b, … without brackets, which is a list.
  Expression tuple() {
    Expression first = expression();
    if (!is(",")) return first;
    std::vector<Expression> items;
    items.push_back(std::move(first));
    while (take(",")) items.push_back(expression());
    return make(Expression::Kind::kList, std::move(items));
  }
  Expression expression() {
    const Depth depth(*this);
    Expression value = either();
    while (take("if")) {
      Expression holds = either();
      Expression other = take("else") ? expression() : make(Expression::Kind::kName, {}, "");
      std::vector<Expression> items;
      items.push_back(std::move(holds));
      items.push_back(std::move(value));
      items.push_back(std::move(other));
      value = make(Expression::Kind::kCondition, std::move(items));
    }
    return value;
  }
  Expression joined(Expression left, std::string sign, Expression right) const {
    std::vector<Expression> items;
    items.push_back(std::move(left));
    items.push_back(std::move(right));
    return make(Expression::Kind::kOperator, std::move(items), std::move(sign));
  }
  Expression either() {
    Expression left = both();
    while (take("or")) left = joined(std::move(left), "or", both());
    return left;
  }
  Expression both() {
    Expression left = negation();
    while (take("and")) left = joined(std::move(left), "and", negation());
    return left;
  }
  Expression negation() {
    const Depth depth(*this);
    if (!take("not")) return comparison();
    std::vector<Expression> items;
    items.push_back(negation());
    return make(Expression::Kind::kNot, std::move(items));
  }
  // Parses a < b < c as a < b and b < c.
  Expression comparison() {
    Expression left = sum();
    std::optional<Expression> all;
    while (true) {
      bool negates = false;
      std::string sign = token().text;
      if (is("not") && tokens_[at_ + 1].text == "in") {
        negates = true;
        ++at_;
        sign = "in";
      } else if (!is("==") && !is("!=") && !is("<") && !is("<=") && !is(">") && !is(">=") && !is("in")) {
        return all ? std::move(*all) : std::move(left);
      }
      ++at_;
      Expression right = sum();
      Expression holds = joined(std::move(left), sign, right);
      if (negates) {
        std::vector<Expression> items;
        items.push_back(std::move(holds));
        holds = make(Expression::Kind::kNot, std::move(items));
      }
      all = all ? joined(std::move(*all), "and", std::move(holds)) : std::move(holds);
      left = std::move(right);
    }
  }
  Expression sum() {
    Expression left = text_sum();
    while (is("+") || is("-")) {
      const std::string sign = tokens_[at_++].text;
      left = joined(std::move(left), sign, text_sum());
    }
    return left;
  }
  Expression text_sum() {
    Expression left = product();
    while (take("~")) left = joined(std::move(left), "~", product());
    return left;
  }
  Expression product() {
    Expression left = power();
    while (is("*") || is("/") || is("//") || is("%")) {
      const std::string sign = tokens_[at_++].text;
      left = joined(std::move(left), sign, power());
    }
    return left;
  }
  Expression power() {
    Expression left = unary();
    while (take("**")) left = joined(std::move(left), "**", unary());
    return left;
  }
  // Filters see the sign: -3 | abs is 3.
  Expression unary() { return filtered(signed_value()); }
  Expression signed_value() {
    const Depth depth(*this);
    if (!take("-")) return postfix(primary());
    std::vector<Expression> items;
    items.push_back(signed_value());
    return make(Expression::Kind::kNegative, std::move(items));
  }

  Expression primary() {
    const Token& now = token();
    if (now.kind == Token::Kind::kString || now.kind == Token::Kind::kNumber) {
      Expression value = literal(now.value);
      ++at_;
      // Adjacent strings are one.
      while (now.kind == Token::Kind::kString && token().kind == Token::Kind::kString) {
        value.value = value.value.get<std::string>() + tokens_[at_++].value.get<std::string>();
      }
      return value;
    }
    if (now.kind == Token::Kind::kName) {
      const std::string word = name();
      if (word == "true" || word == "True") return literal(true);
      if (word == "false" || word == "False") return literal(false);
      if (word == "none" || word == "None") return literal(nullptr);
      return make(Expression::Kind::kName, {}, word);
    }
    if (take("(")) {
      if (take(")")) return make(Expression::Kind::kList, {});
      Expression value = tuple();
      expect(")");
      return value;
    }
    if (take("[")) return make(Expression::Kind::kList, values("]"));
    if (take("{")) {
      std::vector<Expression> items;
      while (!take("}")) {
        if (!items.empty()) expect(",");
        if (take("}")) break;
        items.push_back(expression());
        expect(":");
        items.push_back(expression());
      }
      return make(Expression::Kind::kObject, std::move(items));
    }
    fail("an expression is not understood", now.kind == Token::Kind::kEnd ? "the tag's end" : now.text);
  }
  std::vector<Expression> values(std::string_view end) {
    std::vector<Expression> items;
    while (!take(end)) {
      if (!items.empty()) expect(",");
      if (take(end)) break;
      items.push_back(expression());
    }
    return items;
  }
  // Parses arguments after "(".
  void arguments(Expression& call) {
    bool first = true;
    while (!take(")")) {
      if (!first) expect(",");
      first = false;
      if (take(")")) break;
      if (token().kind == Token::Kind::kName && tokens_[at_ + 1].text == "=" &&
          tokens_[at_ + 1].kind == Token::Kind::kOperator) {
        std::string key = name();
        ++at_;
        call.named.emplace_back(std::move(key), expression());
      } else {
        call.items.push_back(expression());
      }
    }
  }

  Expression postfix(Expression value) {
    while (true) {
      std::vector<Expression> items;
      if (take(".")) {
        items.push_back(std::move(value));
        if (token().kind == Token::Kind::kNumber) {
          items.push_back(literal(tokens_[at_++].value));
          value = make(Expression::Kind::kSubscript, std::move(items));
        } else {
          value = make(Expression::Kind::kAttribute, std::move(items), name());
        }
      } else if (take("[")) {
        items.push_back(std::move(value));
        value = subscript(std::move(items));
      } else if (take("(")) {
        items.push_back(std::move(value));
        value = make(Expression::Kind::kCall, std::move(items));
        arguments(value);
      } else {
        return value;
      }
    }
  }
  Expression subscript(std::vector<Expression> items) {
    std::array<Expression, 3> parts = {literal(nullptr), literal(nullptr), literal(nullptr)};
    std::size_t part = 0, given = 0;
    bool slices = false;
    while (!take("]")) {
      if (take(":")) {
        slices = true;
        if (++part == parts.size()) fail("a slice has more than three parts", ":");
        continue;
      }
      if (given++ > part) fail("a subscript is not understood", token().text);
      parts[part] = expression();
    }
    if (!slices && given == 0) fail("a subscript is empty", "[]");
    items.push_back(std::move(parts[0]));
    if (!slices) return make(Expression::Kind::kSubscript, std::move(items));
    items.push_back(std::move(parts[1]));
    items.push_back(std::move(parts[2]));
    return make(Expression::Kind::kSlice, std::move(items));
  }

  Expression filtered(Expression value) {
    while (true) {
      std::vector<Expression> items;
      if (take("|")) {
        items.push_back(std::move(value));
        value = make(Expression::Kind::kFilter, std::move(items), name());
        if (take("(")) arguments(value);
        value = postfix(std::move(value));
      } else if (take("is")) {
        const bool negates = take("not");
        items.push_back(std::move(value));
        value = make(Expression::Kind::kTest, std::move(items), name());
        if (take("(")) {
          arguments(value);
        } else if (token().kind == Token::Kind::kString || token().kind == Token::Kind::kNumber) {
          value.items.push_back(primary());
        }
        if (negates) {
          std::vector<Expression> inner;
          inner.push_back(std::move(value));
          value = make(Expression::Kind::kNot, std::move(inner));
        }
      } else {
        return value;
      }
    }
  }

  // Counts how deep the parser is.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepestNesting) parser_.fail("the template is nested too deep", "more than 200 levels");
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser& parser_;
  };

  std::vector<Token> tokens_;
  const std::string& where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

void fail_jinja(const std::string& where, int line, std::string what, std::string found, std::string allowed) {
  throw DataError({.what = "the chat template cannot be used: " + std::move(what),
                   .where = fmt::format("{}, line {}", where, line),
                   .found = std::move(found),
                   .allowed = allowed.empty() ? "what chat templates of transformers use of Jinja" : std::move(allowed),
                   .remedy = "write the texts yourself, with `prompt` and `completion` in place of `messages`"});
}

JinjaBlock parse_jinja(std::string_view source, const std::string& where) {
  return Parser(jinja_tokens(source, where), where).run();
}

}  // namespace plimsoll
