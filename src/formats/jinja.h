// JinjaTemplate: the part of Jinja that chat templates use (transformers, "Chat templates"), rendered like
// transformers: with trim_blocks and lstrip_blocks, in a sandbox that changes nothing.
//
//   const JinjaTemplate chat(text, "tokenizer_config.json, chat_template");
//   const std::string prompt = chat.render({{"messages", messages}, {"add_generation_prompt", true}}).text;
//
// It supports for (with a condition, else, break and continue), if, set, macro, generation, namespaces, expressions
// with filters, tests, slices, methods of strings and objects; range, raise_exception, strftime_now. Anything else is
// refused by name when the template is read, or, if it depends on values, when it is rendered.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

// A text, and which parts of it, [begin, end) in bytes, a template marks as said by an assistant:
// {% generation %} … {% endgeneration %}. Marks within macros are passed over, as in transformers.
struct JinjaText {
  std::string text{};
  std::vector<std::pair<std::size_t, std::size_t>> generations{};
};

class JinjaTemplate {
 public:
  // `where` names the template in messages. Throws DataError naming the line that is not supported.
  JinjaTemplate(std::string_view source, std::string where);
  ~JinjaTemplate();
  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;

  // `values` is an object, whose members are the template's variables. Throws DataError for raise_exception, for a
  // value of a kind that an operation does not support, and for more work than any chat needs.
  JinjaText render(const nlohmann::ordered_json& values) const;

 private:
  struct Parsed;
  std::string where_;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace plimsoll
