#include "data/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "formats/jinja_text.h"
#include "formats/json.h"

namespace plimsoll {

using nlohmann::ordered_json;

namespace {

constexpr const char* kOtherAnswer = "ANOTHER-ANSWER";
constexpr const char* kRemedy = "write the texts yourself, with `prompt` and `completion` in place of `messages`";
constexpr const char* kMessages = R"([{"role": "user", "content": "…"}, {"role": "assistant", …}])";

std::optional<ConversationFault> fault_in_message(const ordered_json& message, std::size_t index) {
  const auto fault = [index](const std::string& found, const char* remedy = "") {
    const bool has_remedy = *remedy != '\0';
    return ConversationFault{.found = fmt::format("message {} {}", index, found),
                             .allowed = kMessages,
                             .remedy = has_remedy ? remedy : "give each message a `role` and a `content`"};
  };
  if (!message.is_object()) return fault("that is not an object");
  const auto role = message.find("role"), content = message.find("content");
  if (role == message.end() && message.contains("from") && message.contains("value")) {
    return fault("with `from` and `value`", "rename them `role` and `content`, human \"user\" and gpt \"assistant\"");
  }
  if (role == message.end() || !role->is_string()) return fault("without the text `role`");
  if (content == message.end() || content->is_null()) {
    const bool has_more = std::ranges::any_of(message.items(), [](const auto& item) {
      return item.key() != "role" && item.key() != "content" && !item.value().is_null();
    });
    if (!has_more) return fault("without a `content`");
    return std::nullopt;
  }
  if (content->is_string()) return std::nullopt;
  if (!content->is_array()) return fault("whose `content` is neither a text nor a list of parts");
  for (const ordered_json& part : *content) {
    const bool is_object = part.is_object();
    const ordered_json type = is_object ? part.value("type", ordered_json()) : ordered_json();
    if (is_object && type == "text" && part.contains("text") && part.at("text").is_string()) continue;
    if (type.is_string() && type != "text") {
      return fault(fmt::format("with a part of the type {}", in_quotes(type.get<std::string>())),
                   "leave out what is not text: language models here read text alone");
    }
    return fault("with a part that is no text", R"(write parts as {"type": "text", "text": "…"})");
  }
  return std::nullopt;
}

}  // namespace

Conversation conversation_of(const ordered_json& line, ordered_json messages) {
  Conversation made{.messages = std::move(messages)};
  const auto value = [&line](const char* key) {
    const auto found = line.find(key);
    return found == line.end() ? ordered_json() : *found;
  };
  made.variables = value("chat_template_kwargs");
  made.tools = value("tools");
  if (made.tools.is_string()) {
    ordered_json parsed = parse_ordered_json(made.tools.get_ref<const std::string&>());
    if (made.tools == "") parsed = nullptr;
    if (!parsed.is_discarded()) made.tools = std::move(parsed);
  }
  if (made.tools.is_array() && made.tools.empty()) made.tools = nullptr;
  return made;
}

std::optional<ConversationFault> find_fault(const Conversation& conversation) {
  const ordered_json &messages = conversation.messages, &variables = conversation.variables,
                     &tools = conversation.tools;
  if (!messages.is_array() || messages.empty()) {
    return ConversationFault{.found = "no list with a message",
                             .allowed = kMessages,
                             .remedy = "give each message a `role` and a `content`"};
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (auto fault = fault_in_message(messages[i], i)) return fault;
  }
  if (!variables.is_null() && !variables.is_object()) {
    return ConversationFault{.found = "`chat_template_kwargs` that are not an object",
                             .allowed = R"({"enable_thinking": false})",
                             .remedy = "write an object, or omit them"};
  }
  for (const char* const own : {"messages", "tools", "add_generation_prompt"}) {
    if (!variables.is_object() || !variables.contains(own)) continue;
    return ConversationFault{.found = fmt::format("`{}` in `chat_template_kwargs`", own),
                             .allowed = "what the template does not get otherwise",
                             .remedy = std::string_view(own) == "tools" ? "make `tools` a key of the line itself"
                                                                        : fmt::format("omit `{}` there", own)};
  }
  const bool lists_objects =
      tools.is_array() && std::ranges::all_of(tools, [](const ordered_json& tool) { return tool.is_object(); });
  if (!tools.is_null() && !lists_objects) {
    return ConversationFault{.found = "`tools` that are not a list of objects",
                             .allowed = R"([{"type": "function", "function": {"name": "…", …}}])",
                             .remedy = "write the functions' JSON schemas, or omit `tools`"};
  }
  return std::nullopt;
}

ChatForm::Template ChatForm::parse(std::string_view source, const std::string& where) {
  Template made{.source = std::string(source)};
  try {
    made.parsed.emplace(source, where);
  } catch (const DataError& error) {
    made.fault = error;
  }
  return made;
}

ChatForm::ChatForm(std::string_view source, const std::string& where, ordered_json tokens)
    : usual_(parse(source, where)), tokens_(std::move(tokens)) {}

void ChatForm::use_for_tools(std::string_view source, const std::string& where) { with_tools_ = parse(source, where); }

const ChatForm::Template& ChatForm::template_for(const Conversation& conversation) const {
  return conversation.tools.is_null() || with_tools_.source.empty() ? usual_ : with_tools_;
}

// A template that does not know tools leaves them out without a word.
void ChatForm::refuse_unwritten(const Conversation& conversation, bool learns) const {
  const std::string& source = template_for(conversation).source;
  const auto refuse = [&source](const char* key, std::string found) {
    if (source.find(key) != std::string::npos) return;
    throw DataError({.what = fmt::format("the chat template does not write `{}`", key),
                     .found = std::move(found),
                     .allowed = "conversations whose every part the template writes",
                     .remedy = fmt::format("use a model whose chat template has `{}`, or omit them", key)});
  };
  if (!conversation.tools.is_null()) refuse("tools", counted(conversation.tools.size(), "tool"));
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
    for (const char* const key : {"tool_calls", "reasoning_content"}) {
      const auto value = conversation.messages[i].find(key);
      if (value == conversation.messages[i].end() || value->empty() || *value == "") continue;
      // No model is told what was thought before earlier answers.
      if (learns || std::string_view(key) == "tool_calls") refuse(key, fmt::format("message {}", i));
    }
  }
}

// A message whose content can be exchanged without a change of the text is not in it.
void ChatForm::refuse_left_out(const Conversation& conversation, const std::string& whole) const {
  std::size_t count = conversation.messages.size();
  while (conversation.messages[count - 1].at("role") != "assistant")
    --count;  // `whole` ends with an answer, or behind it
  for (std::size_t i = 0; i < count; ++i) {
    const auto content = conversation.messages[i].find("content");
    if (content == conversation.messages[i].end() || !content->is_string()) continue;
    const std::string said = stripped(content->get_ref<const std::string&>(), kPythonSpace, true, true);
    if (said.empty() || whole.find(said) != std::string::npos) continue;
    Conversation other = conversation;
    other.messages[i]["content"] = kOtherAnswer;
    const bool is_there = text(other, count, false).text != text(conversation, count, false).text;
    if (is_there) continue;
    throw DataError({.what = "the chat template leaves out what a message says",
                     .found = fmt::format("message {}, of the role {}", i,
                                          in_quotes(conversation.messages[i].at("role").get<std::string>())),
                     .allowed = "conversations whose every part the template writes",
                     .remedy =
                         "omit what it leaves out (a role that it does not know, or a content beside `tool_calls`); "
                         "some templates know contents as lists of parts alone"});
  }
}

JinjaText ChatForm::text(const Conversation& conversation, std::size_t count, bool asks) const {
  const Template& form = template_for(conversation);
  if (form.fault) throw DataError(*form.fault);
  ordered_json values = tokens_;
  values["documents"] = nullptr;
  for (const auto& [key, value] : conversation.variables.items()) values[key] = value;
  ordered_json messages = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) messages.push_back(conversation.messages[i]);
  values["messages"] = std::move(messages);
  values["add_generation_prompt"] = asks;
  values["tools"] = conversation.tools;
  return form.parsed->render(values);
}

std::optional<std::string> ChatForm::request_of(const Conversation& conversation, std::size_t answer,
                                                const std::string& whole) const {
  // Templates look at the first message, so that none renders a conversation without one.
  std::string before;
  if (answer > 0) {
    std::string request = text(conversation, answer, true).text;
    if (whole.starts_with(request)) return request;
    before = text(conversation, answer, false).text;
  }
  // A request may begin the answer ("<think>"), which answers in data do without, or with a thought of their own: what
  // stands before the answer then stands before any other answer, too.
  Conversation other = conversation;
  other.messages[answer] = {{"role", "assistant"}, {"content", kOtherAnswer}};
  std::string request = text(other, answer + 1, false).text;
  const std::size_t at = request.rfind(kOtherAnswer);
  if (at == std::string::npos) return std::nullopt;
  request.resize(at);
  request.erase(std::ranges::mismatch(request, whole).in1, request.end());
  return request.starts_with(before) ? std::optional(std::move(request)) : std::nullopt;
}

std::vector<std::string> ChatForm::marked_turns(const Conversation& conversation, std::size_t first) const {
  const JinjaText marked = text(conversation, conversation.messages.size(), false);
  std::vector<std::string> parts;
  if (marked.generations.empty()) return parts;
  refuse_left_out(conversation, marked.text);
  // The marks of the messages before are as many as those of a conversation that has only them.
  const std::size_t before = first == 0 ? 0 : text(conversation, first, false).generations.size();
  std::size_t end = 0;
  for (std::size_t i = std::min(before, marked.generations.size() - 1); i < marked.generations.size(); ++i) {
    const auto [begin, last] = marked.generations[i];
    if (begin == end && !parts.empty()) {  // nothing stands between two marks
      parts.back() += marked.text.substr(begin, last - begin);
    } else {
      parts.push_back(marked.text.substr(end, begin - end));
      parts.push_back(marked.text.substr(begin, last - begin));
    }
    end = last;
  }
  return parts;
}

std::vector<std::string> ChatForm::turns(const Conversation& conversation, std::size_t first) const {
  refuse_unwritten(conversation, true);
  const ordered_json& messages = conversation.messages;
  std::vector<std::size_t> answers;
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (messages[i].at("role") == "assistant") answers.push_back(i);
  }
  if (answers.empty()) {
    throw DataError({.what = "a conversation has no answer",
                     .found = "no message of the role \"assistant\"",
                     .allowed = "at least one, which is what is learnt",
                     .remedy = "omit the conversation, or add the answer"});
  }
  if (template_for(conversation).source.find("endgeneration") != std::string::npos) {
    if (std::vector<std::string> parts = marked_turns(conversation, first); !parts.empty()) return parts;
  }
  std::vector<std::string> parts;
  std::string before;       // before the parts
  bool is_one_text = true;  // each text so far begins with the one before
  for (const std::size_t answer : answers) {
    const bool is_last = answer == answers.back();
    std::string whole;                   // the text with the answer
    std::optional<std::string> request;  // the text before it, if they can be told apart
    try {
      whole = text(conversation, answer + 1, false).text;
      request = request_of(conversation, answer, whole);
    } catch (const DataError&) {
      // A template may refuse a conversation that ends there, though not the whole one.
      if (is_last || template_for(conversation).fault) throw;
    }
    if (!request && is_last) {
      throw DataError({.what = "the chat template formats an answer differently from its request",
                       .found = fmt::format("message {}", answer),
                       .allowed = "a template whose text with the answer begins with the text that asks for it",
                       .remedy = kRemedy});
    }
    is_one_text = is_one_text && request && request->starts_with(before);
    if (!is_one_text) {  // only the last answer counts from here on
      parts.clear();
      before.clear();
    }
    if (!request) continue;
    parts.push_back(request->substr(before.size()));
    parts.push_back(whole.substr(request->size()));
    if (is_last) refuse_left_out(conversation, whole);
    before = is_one_text ? std::move(whole) : std::string();
  }
  return parts;
}

std::string ChatForm::prompt(const Conversation& conversation) const {
  refuse_unwritten(conversation, false);
  return text(conversation, conversation.messages.size(), true).text;
}

}  // namespace plimsoll
