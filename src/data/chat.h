// ChatForm: how a model writes a conversation as text: by its chat template, which names some of its tokens.
//
//   const ChatForm chat("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}", "run",
//                       {{"eos_token", "</s>"}});
//   chat.turns(messages);   // what an assistant says, and before it what stands there
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/jinja.h"

namespace plimsoll {

// Returns what is wrong with `messages`, or nothing if they are a conversation. That is an array of objects with the
// texts `role` and `content`, and perhaps other texts and numbers.
std::optional<std::string> fault_in_messages(const nlohmann::json& messages);
// Returns the same of a line's `chat_template_kwargs`, an object or null.
std::optional<std::string> fault_in_variables(const nlohmann::json& variables);
// True if a line has `tools`, which are not passed to the template.
bool has_tools(const nlohmann::json& line);

class ChatForm {
 public:
  // `source` is the template; `where` names it in messages; `tokens` is an object with the texts of bos_token and so
  // on, which the template may name. A template that cannot be parsed is refused only when a conversation needs it.
  ChatForm(std::string_view source, const std::string& where, nlohmann::ordered_json tokens);

  // `messages` must have no fault_in_messages. Returns their text in parts: every second part, including the last, is
  // an assistant's answer and what the template appends to it, and the others are the text before. Text after the last
  // answer is left out. A template may write earlier answers differently once others follow; then only the last one is
  // a separate part. Throws DataError for a conversation that the template refuses, or that has no answer.
  // `variables`: what else the template may name, an object or null (TRL's chat_template_kwargs).
  std::vector<std::string> turns(const nlohmann::json& messages, const nlohmann::json& variables = {}) const;
  // Returns the text up to where an assistant's next answer begins.
  std::string prompt(const nlohmann::json& messages, const nlohmann::json& variables = {}) const;

  const std::string& source() const { return source_; }

 private:
  std::string text(const nlohmann::json& messages, const nlohmann::json& variables, std::size_t count,
                   bool answers) const;
  // Returns the text before an answer, given the text with it; nothing if the answer changes what stands before it.
  std::optional<std::string> request_of(const nlohmann::json& messages, const nlohmann::json& variables,
                                        std::size_t answer, const std::string& whole) const;

  std::string source_;
  std::optional<JinjaTemplate> template_;  // nothing: `fault_` says why
  std::optional<DataError> fault_;
  nlohmann::ordered_json tokens_;
};

}  // namespace plimsoll
