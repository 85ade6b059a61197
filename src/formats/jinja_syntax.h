// The syntax tree of a Jinja template (formats/jinja.h).
//
//   const JinjaBlock body = parse_jinja("{% for m in messages %}{{ m.content }}{% endfor %}", "here");
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

struct JinjaExpression {
  enum class Kind : std::uint8_t {
    kLiteral,    // value
    kName,       // text
    kList,       // items
    kObject,     // items: key, value, key, value, …
    kAttribute,  // items[0].text
    kSubscript,  // items[0][items[1]]
    kSlice,      // items[0][items[1]:items[2]:items[3]], literals of null where one is left out
    kCall,       // items[0](items[1], …, name=value)
    kFilter,     // items[0] | text(items[1], …, name=value)
    kTest,       // items[0] is text(items[1], …)
    kNot,        // items[0]
    kNegative,   // items[0]
    kOperator,   // items[0] text items[1]: + - * / // % ** ~ == != < <= > >= in, and, or
    kCondition   // items[1] if items[0] else items[2]
  };
  Kind kind = Kind::kLiteral;
  int line = 0;
  std::string text{};
  nlohmann::ordered_json value{};
  std::vector<JinjaExpression> items{};
  std::vector<std::pair<std::string, JinjaExpression>> named{};
};

struct JinjaStatement;
using JinjaBlock = std::vector<JinjaStatement>;

struct JinjaStatement {
  enum class Kind : std::uint8_t {
    kText,   // text
    kPrint,  // expressions[0]
    kFor,    // names in expressions[0], those for which expressions[1] holds, if present: blocks[0], else blocks[1]
    kIf,     // blocks[i] if expressions[i] holds, else the last block, if there is one more
    kSet,    // names[0], or its member names[1], is expressions[0], or what blocks[0] prints
    kMacro,  // names[0](names[1], …): blocks[0]; expressions: defaults of the last of them
    kBreak,
    kContinue,
    kGeneration  // blocks[0], which an assistant says
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text{};
  std::vector<std::string> names{};
  std::vector<JinjaExpression> expressions{};
  std::vector<JinjaBlock> blocks{};
  bool reads_loop = false;  // of kFor: the body uses "loop", which has copies of the neighbouring items
};

// Throws DataError naming the line that is not supported.
JinjaBlock parse_jinja(std::string_view source, const std::string& where);

// Throws the error for a line of a template; by default, allowed is the Jinja that is supported.
[[noreturn]] void fail_jinja(const std::string& where, int line, std::string what, std::string found,
                             std::string allowed = {});

}  // namespace plimsoll
