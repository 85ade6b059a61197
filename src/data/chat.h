// ChatForm: how a model writes a conversation down: by its chat template, which names some of its tokens.
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

// Says what is wrong with `messages`; nothing: they are a conversation. That is an array of objects with the texts `role`
// and `content`, and perhaps other texts and numbers.
std::optional<std::string> fault_in_messages(const nlohmann::json& messages);

class ChatForm {
 public:
  // `source`: the template; `where`: for messages. `tokens`: an object with the texts of bos_token and so on, which the
  // template may name. A template that is not understood is refused where a conversation needs it, and nowhere else.
  ChatForm(std::string_view source, const std::string& where, nlohmann::ordered_json tokens);

  // `messages`: without a fault_in_messages. Returns their text in parts: every second one,
  // the last among them, is what an assistant says, with what the template puts behind it, and the others are what
  // stands before. What follows the last answer is left out. A template may write earlier answers otherwise once others
  // follow; then only the last one is a part of its own. Throws DataError for a conversation that the template refuses,
  // and where nobody answers.
  std::vector<std::string> turns(const nlohmann::json& messages) const;
  // The text with which an assistant's next answer begins.
  std::string prompt(const nlohmann::json& messages) const;

  const std::string& source() const { return source_; }

 private:
  std::string text(const nlohmann::json& messages, std::size_t count, bool answers) const;

  std::string source_;
  std::optional<JinjaTemplate> template_;  // nothing: `fault_` says why
  std::optional<DataError> fault_;
  nlohmann::ordered_json tokens_;
};

}  // namespace plimsoll
