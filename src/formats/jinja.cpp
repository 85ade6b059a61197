#include "formats/jinja.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "formats/jinja_filters.h"
#include "formats/jinja_methods.h"
#include "formats/jinja_syntax.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;
using Expression = JinjaExpression;
using Statement = JinjaStatement;
using Value = JinjaValue;

constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::size_t kMostWork = std::size_t{1} << 28;  // bytes that are copied
// The deepest nesting of expressions and blocks, through all calls: a few MiB of the stack without optimization.
constexpr int kDeepest = 600;

enum class Jump : std::uint8_t { kNone, kBreak, kContinue };

std::string now(const std::string& format) {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 256> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)};
}

class Renderer {
 public:
  Renderer(const JinjaBlock& body, const std::string& where, const ordered_json& values) : body_(body), where_(where) {
    scopes_.emplace_back();
    for (const auto& [name, value] : values.items()) scopes_.front()[name] = Value(value);
  }

  JinjaText run() {
    render(body_, whole_.text);
    return std::move(whole_);
  }

 private:
  using Scope = std::map<std::string, Value>;

  void count(std::size_t bytes = 0) {
    if (++steps_ > kMostSteps || bytes > kMostJinjaBytes)
      throw JinjaFault{"it does more work than any chat needs", "a loop"};
  }

  // Counts how deep the renderer is.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) {
      if (depth_ == kDeepest)
        throw JinjaFault{"it is nested too deep, or macros call one another without end", "a macro"};
      ++depth_;
    }
    ~Depth() { --depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    int& depth_;
  };
  // Counts what it costs to copy a value.
  Value copied(Value value) {
    work_ += size_of(value);
    if (work_ > kMostWork) throw JinjaFault{"it does more work than any chat needs", "a large value"};
    return value;
  }

  Jump render(const JinjaBlock& block, std::string& out) {
    for (const Statement& statement : block) {
      try {
        const Depth depth(depth_);
        count(out.size());
        const Jump jump = render(statement, out);
        if (jump != Jump::kNone) return jump;
      } catch (JinjaFault& fault) {
        fail_jinja(where_, statement.line, std::move(fault.what), std::move(fault.found), std::move(fault.allowed));
      }
    }
    return Jump::kNone;
  }
  Jump render(const Statement& s, std::string& out) {
    switch (s.kind) {
      case Statement::Kind::kText:
        out += s.text;
        break;
      case Statement::Kind::kPrint:
        out += printed(evaluate(s.expressions[0]));
        break;
      case Statement::Kind::kFor:
        return loop(s, out);
      case Statement::Kind::kIf: {
        std::size_t i = 0;
        while (i < s.expressions.size() && !is_true(evaluate(s.expressions[i]))) ++i;
        if (i < s.blocks.size()) return render(s.blocks[i], out);
        break;
      }
      case Statement::Kind::kSet:
        assign(s);
        break;
      case Statement::Kind::kMacro:
        macros_[s.names[0]] = &s;
        break;
      case Statement::Kind::kBreak:
        return Jump::kBreak;
      case Statement::Kind::kContinue:
        return Jump::kContinue;
      case Statement::Kind::kGeneration: {
        const bool counts = &out == &whole_.text && !std::exchange(generates_, true);
        const std::size_t begin = out.size();
        const Jump jump = render(s.blocks[0], out);
        if (!counts) return jump;
        generates_ = false;
        whole_.generations.emplace_back(begin, out.size());
        return jump;
      }
    }
    return Jump::kNone;
  }

  void assign(const Statement& s) {
    Value value;
    if (s.blocks.empty()) {
      value = evaluate(s.expressions[0]);
    } else {
      std::string text;
      render(s.blocks[0], text);
      value = Value(text);
    }
    if (s.names.size() == 1) {
      scopes_.back()[s.names[0]] = std::move(value);
      return;
    }
    const Value* const space = find(s.names[0]);
    if (space == nullptr || !space->members) throw JinjaFault{"a member is set on a non-namespace", s.names[0]};
    (*space->members)[s.names[1]] = std::move(value);
  }

  const Value* find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  void bind(const Statement& s, const ordered_json& item) {
    if (s.names.size() == 1) {
      scopes_.back()[s.names[0]] = Value(item);
      return;
    }
    if (!item.is_array() || item.size() != s.names.size()) {
      throw JinjaFault{"an item has other parts than there are names", printed(Value(item))};
    }
    for (std::size_t i = 0; i < s.names.size(); ++i) scopes_.back()[s.names[i]] = Value(item[i]);
  }

  static ordered_json about_loop(const std::vector<ordered_json>& items, std::size_t i) {
    ordered_json about = {{"index", i + 1},
                          {"index0", i},
                          {"first", i == 0},
                          {"last", i + 1 == items.size()},
                          {"length", items.size()},
                          {"revindex", items.size() - i},
                          {"revindex0", items.size() - i - 1},
                          {"depth", 1},  // only loops that call themselves go deeper
                          {"depth0", 0}};
    if (i > 0) about["previtem"] = items[i - 1];
    if (i + 1 < items.size()) about["nextitem"] = items[i + 1];
    return about;
  }

  Jump loop(const Statement& s, std::string& out) {
    std::vector<ordered_json> items = elements_of(evaluate(s.expressions[0]));
    if (s.expressions.size() > 1) {
      std::erase_if(items, [&](const ordered_json& item) {
        scopes_.emplace_back();
        bind(s, item);
        const bool keeps = is_true(evaluate(s.expressions[1]));
        scopes_.pop_back();
        return !keeps;
      });
    }
    if (items.empty()) return s.blocks.size() > 1 ? render(s.blocks[1], out) : Jump::kNone;
    for (std::size_t i = 0; i < items.size(); ++i) {
      count(out.size());
      scopes_.emplace_back();
      if (s.reads_loop) scopes_.back()["loop"] = Value(about_loop(items, i));
      bind(s, items[i]);
      const Jump jump = render(s.blocks[0], out);
      scopes_.pop_back();
      if (jump == Jump::kBreak) break;
    }
    return Jump::kNone;
  }

  Value evaluate(const Expression& e) {
    try {
      count();
      const Depth depth(depth_);
      return copied(value_of(e));
    } catch (JinjaFault& fault) {
      fail_jinja(where_, e.line, std::move(fault.what), std::move(fault.found), std::move(fault.allowed));
    }
  }
  Value value_of(const Expression& e) {
    switch (e.kind) {
      case Expression::Kind::kLiteral:
        return Value(e.value);
      case Expression::Kind::kName: {
        const Value* const value = find(e.text);
        if (value != nullptr) return *value;
        return is_function(e.text) ? Value(true) : Value::undefined();  // templates test whether a function exists
      }
      case Expression::Kind::kList: {
        ordered_json list = ordered_json::array();
        for (const Expression& item : e.items) list.push_back(evaluate(item).json);
        return Value(std::move(list));
      }
      case Expression::Kind::kObject: {
        ordered_json object = ordered_json::object();
        for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
          object[printed(evaluate(e.items[i]))] = evaluate(e.items[i + 1]).json;
        }
        return Value(std::move(object));
      }
      case Expression::Kind::kAttribute:
        return attribute_of(evaluate(e.items[0]), e.text);
      case Expression::Kind::kSubscript:
        return item_of(evaluate(e.items[0]), evaluate(e.items[1]));
      case Expression::Kind::kSlice:
        return slice_of(evaluate(e.items[0]), evaluate(e.items[1]), evaluate(e.items[2]), evaluate(e.items[3]));
      case Expression::Kind::kCall:
        return call(e);
      case Expression::Kind::kFilter:
        return apply_filter(evaluate(e.items[0]), e.text, arguments(e));
      case Expression::Kind::kTest:
        return Value(passes_test(evaluate(e.items[0]), e.text, e.items.size() > 1 ? evaluate(e.items[1]) : Value()));
      case Expression::Kind::kNot:
        return Value(!is_true(evaluate(e.items[0])));
      case Expression::Kind::kNegative:
        return negative_of(evaluate(e.items[0]));
      case Expression::Kind::kOperator: {
        Value left = evaluate(e.items[0]);
        if (e.text == "and") return is_true(left) ? evaluate(e.items[1]) : left;
        if (e.text == "or") return is_true(left) ? left : evaluate(e.items[1]);
        return apply_operator(e.text, left, evaluate(e.items[1]));
      }
      case Expression::Kind::kCondition:
        return evaluate(is_true(evaluate(e.items[0])) ? e.items[1] : e.items[2]);
    }
    return {};
  }

  // Returns the arguments after the first item, which is the one that is called or filtered.
  JinjaArguments arguments(const Expression& e) {
    JinjaArguments given;
    for (std::size_t i = 1; i < e.items.size(); ++i) given.values.push_back(evaluate(e.items[i]));
    for (const auto& [name, value] : e.named) given.named.emplace_back(name, evaluate(value));
    return given;
  }

  Value call(const Expression& e) {
    const Expression& callee = e.items[0];
    if (callee.kind == Expression::Kind::kAttribute) {
      return call_method(evaluate(callee.items[0]), callee.text, arguments(e));
    }
    if (callee.kind != Expression::Kind::kName) throw JinjaFault{"a call is not understood", "("};
    const JinjaArguments given = arguments(e);
    if (const auto found = macros_.find(callee.text); found != macros_.end()) return expand(*found->second, given);
    return function(callee.text, given);
  }
  bool is_function(const std::string& name) const {
    static constexpr std::array kFunctions = {"namespace", "dict", "raise_exception", "strftime_now", "range"};
    return macros_.contains(name) || std::ranges::find(kFunctions, name) != kFunctions.end();
  }
  Value function(const std::string& name, const JinjaArguments& given) {
    if (name == "namespace" || name == "dict") {
      Value made{ordered_json::object()};
      for (const auto& [key, value] : given.named) made.json[key] = value.json;
      if (name == "namespace") made.members = std::make_shared<Scope>(given.named.begin(), given.named.end());
      return made;
    }
    const Value* const first = given.find(0, name == "strftime_now" ? "format" : "message");
    if (name == "raise_exception")
      throw JinjaFault{"the template refuses the chat", first == nullptr ? "" : printed(*first),
                       "a conversation that the template accepts"};
    if (name == "strftime_now") return Value(now(text_in(first == nullptr ? Value() : *first)));
    if (name == "range") return range(given.values);
    throw JinjaFault{"a function is not understood", name};
  }
  Value range(const std::vector<Value>& values) {
    if (values.empty() || values.size() > 3) {
      throw JinjaFault{"range has one to three numbers", std::to_string(values.size())};
    }
    const std::int64_t begin = values.size() > 1 ? whole_in(values[0]) : 0,
                       end = whole_in(values[values.size() > 1 ? 1 : 0]);
    const std::int64_t step = values.size() > 2 ? whole_in(values[2]) : 1;
    if (step == 0) throw JinjaFault{"range has steps of 0", "0"};
    ordered_json list = ordered_json::array();
    for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      count();
      list.push_back(i);
    }
    return Value(std::move(list));
  }
  Value expand(const Statement& macro, const JinjaArguments& given) {
    // A macro sees what the template has set outside of loops, and its parameters; a default sees the parameters before
    // it.
    std::vector<Scope> outer = std::exchange(scopes_, {});
    scopes_.push_back(std::move(outer.front()));
    scopes_.emplace_back();
    const std::size_t parameters = macro.names.size() - 1, without = parameters - macro.expressions.size();
    for (std::size_t i = 0; i < parameters; ++i) {
      const std::string& name = macro.names[i + 1];
      const Value* const value = given.find(i, name);
      Value bound = value != nullptr ? *value
                    : i < without    ? Value::undefined()
                                     : evaluate(macro.expressions[i - without]);
      scopes_.back()[name] = std::move(bound);
    }
    std::string text;
    render(macro.blocks[0], text);
    outer.front() = std::move(scopes_.front());
    scopes_ = std::move(outer);
    return Value(std::move(text));
  }

  const JinjaBlock& body_;
  const std::string& where_;
  std::vector<Scope> scopes_;  // the template's own first, then those of loops and macros
  std::map<std::string, const Statement*> macros_;
  JinjaText whole_;
  bool generates_ = false;  // within a mark
  std::int64_t steps_ = 0;
  std::size_t work_ = 0;
  int depth_ = 0;
};

}  // namespace

struct JinjaTemplate::Parsed {
  JinjaBlock body;
};

JinjaTemplate::JinjaTemplate(std::string_view source, std::string where) : where_(std::move(where)) {
  parsed_ = std::make_unique<const Parsed>(Parsed{parse_jinja(source, where_)});
}
JinjaTemplate::~JinjaTemplate() = default;
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;

JinjaText JinjaTemplate::render(const ordered_json& values) const {
  return Renderer(parsed_->body, where_, values).run();
}

}  // namespace plimsoll
