// ChatForm: how a model writes a conversation as text: by its chat template, which names some of its tokens.
//
//   const ChatForm chat("{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}", "run",
//                       {{"eos_token", "</s>"}});
//   chat.turns({.messages = messages});   // what an assistant says, and before it what stands there
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/jinja.h"

namespace plimsoll {

// Holds what a chat template formats. Objects have the order of their keys in the file, which templates show.
struct Conversation {
  nlohmann::ordered_json messages{};
  nlohmann::ordered_json tools{};      // a list of functions that the assistant may call, or null
  nlohmann::ordered_json variables{};  // what else the template may name (chat_template_kwargs), or null
};

// Returns the conversation of a line of data with these messages, and its `tools`, which may be JSON in a text, and its
// `chat_template_kwargs`.
Conversation conversation_of(const nlohmann::ordered_json& line, nlohmann::ordered_json messages);

// Says what makes a conversation invalid, for an error's fields.
struct ConversationFault {
  std::string found, allowed, remedy;
};
// Returns that, or nothing. Messages are an array of objects with a `role`, which is text, and a `content`: text, a
// list of parts that are text, or, beside other keys such as `tool_calls`, nothing.
std::optional<ConversationFault> find_fault(const Conversation& conversation);

class ChatForm {
 public:
  // `source` is the template; `where` names it in messages; `tokens` is an object with the texts of bos_token and so
  // on, which the template may name. A template that cannot be parsed is refused only when a conversation needs it.
  ChatForm(std::string_view source, const std::string& where, nlohmann::ordered_json tokens);
  // Uses another template for conversations with tools.
  void use_for_tools(std::string_view source, const std::string& where);

  // Precondition of both: the conversation has no fault. They throw DataError for one that the template refuses, or of
  // which it leaves out tools, calls of tools, or what is thought; turns() also for a message of which it writes
  // nothing.

  // Returns the text in parts: every second part, including the last, is what an assistant says, and the others are the
  // text before. It says what the template marks ({% generation %}); without marks, its messages and what the template
  // appends to them. Text after the last answer is left out. A template may write earlier answers differently once
  // others follow, or not end with them; then only the last one is a separate part. Answers before the message `first`
  // are context. Throws DataError for a conversation without an answer.
  std::vector<std::string> turns(const Conversation& conversation, std::size_t first = 0) const;
  // Returns the text up to where an assistant's next answer begins.
  std::string prompt(const Conversation& conversation) const;

  // Identifies the templates.
  std::string source() const { return usual_.source + with_tools_.source; }

 private:
  struct Template {
    std::string source{};
    std::optional<JinjaTemplate> parsed{};  // nothing: `fault` says why
    std::optional<DataError> fault{};
  };
  static Template parse(std::string_view source, const std::string& where);

  // Returns the text of the first `count` messages; if `asks`, up to where the next answer begins.
  JinjaText text(const Conversation& conversation, std::size_t count, bool asks) const;
  const Template& template_for(const Conversation& conversation) const;
  void refuse_unwritten(const Conversation& conversation, bool learns) const;
  void refuse_left_out(const Conversation& conversation, const std::string& whole) const;
  std::vector<std::string> marked_turns(const Conversation& conversation, std::size_t first) const;
  // Returns the text before an answer, given the text with it; nothing if the answer changes what stands before it.
  std::optional<std::string> request_of(const Conversation& conversation, std::size_t answer,
                                        const std::string& whole) const;

  Template usual_, with_tools_;  // the second without a source: there is none
  nlohmann::ordered_json tokens_;
};

}  // namespace plimsoll
