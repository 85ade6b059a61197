#include "data/chat.h"

#include <fmt/format.h>

#include <utility>

namespace plimsoll {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr const char* kOtherAnswer = "ANOTHER-ANSWER";
constexpr const char* kRemedy = "write the texts yourself, with `prompt` and `completion` in place of `messages`";

// A parsed object has lost the order of its keys, which a template that prints it whole would show.
ordered_json ordered(const json& message) {
  ordered_json made = {{"role", message.at("role")}, {"content", message.at("content")}};
  for (const auto& [key, value] : message.items()) made[key] = value;
  return made;
}

}  // namespace

std::optional<std::string> fault_in_messages(const json& messages) {
  if (!messages.is_array() || messages.empty()) return "no list with a message";
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    for (const char* key : {"role", "content"}) {
      const auto found = message.is_object() ? message.find(key) : message.end();
      if (found == message.end() || !found->is_string()) return fmt::format("message {} without the text `{}`", i, key);
    }
    for (const auto& [key, value] : message.items()) {
      if (value.is_structured()) return fmt::format("message {} with `{}`, which is no text", i, key);
    }
  }
  return std::nullopt;
}

std::optional<std::string> fault_in_variables(const json& variables) {
  if (variables.is_null() || variables.is_object()) return std::nullopt;
  return "`chat_template_kwargs` that is not an object";
}

bool has_tools(const json& line) {
  const auto tools = line.find("tools");
  if (tools == line.end() || tools->is_null()) return false;
  return tools->is_string() ? *tools != "" && *tools != "[]" : !tools->empty();
}

ChatForm::ChatForm(std::string_view source, const std::string& where, ordered_json tokens)
    : source_(source), tokens_(std::move(tokens)) {
  try {
    template_.emplace(source, where);
  } catch (const DataError& error) {
    fault_ = error;
  }
}

std::string ChatForm::text(const json& messages, const json& variables, std::size_t count, bool answers) const {
  if (fault_) throw DataError(*fault_);
  ordered_json values = tokens_;
  for (const auto& [key, value] : variables.items()) values[key] = value;
  values["messages"] = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) values["messages"].push_back(ordered(messages[i]));
  values["add_generation_prompt"] = answers;
  values["tools"] = nullptr;
  values["documents"] = nullptr;
  return template_->render(values);
}

std::optional<std::string> ChatForm::request_of(const json& messages, const json& variables, std::size_t answer,
                                                const std::string& whole) const {
  std::string request = text(messages, variables, answer, true);
  if (whole.starts_with(request)) return request;
  // A request may begin the answer ("<think>"), which answers in data do without: what stands before the answer then
  // stands before any other answer.
  json other = messages;
  other[answer]["content"] = kOtherAnswer;
  request = text(other, variables, answer + 1, false);
  const std::size_t at = request.rfind(kOtherAnswer);
  if (at == std::string::npos) return std::nullopt;
  request.resize(at);
  const bool follows = request.starts_with(text(messages, variables, answer, false)) && whole.starts_with(request);
  return follows ? std::optional(request) : std::nullopt;
}

std::vector<std::string> ChatForm::turns(const json& messages, const json& variables) const {
  std::vector<std::string> parts;
  std::string before;       // before the parts
  bool is_one_text = true;  // each text so far begins with the one before
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].at("role") != "assistant") continue;
    const std::string whole = text(messages, variables, i + 1, false);
    const std::optional<std::string> request = request_of(messages, variables, i, whole);
    if (!request) {
      throw DataError({.what = "the chat template formats an answer differently from its request",
                       .found = fmt::format("message {}", i),
                       .allowed = "a template whose text with the answer begins with the text that asks for it",
                       .remedy = kRemedy});
    }
    is_one_text = is_one_text && request->starts_with(before);
    if (!is_one_text) {  // only the last answer counts from here on
      parts.clear();
      before.clear();
    }
    parts.push_back(request->substr(before.size()));
    parts.push_back(whole.substr(request->size()));
    before = is_one_text ? whole : std::string();
  }
  if (parts.empty()) {
    throw DataError({.what = "a conversation has no answer",
                     .found = "no message of the role \"assistant\"",
                     .allowed = "at least one, which is what is learnt",
                     .remedy = "omit the conversation, or add the answer"});
  }
  return parts;
}

std::string ChatForm::prompt(const json& messages, const json& variables) const {
  return text(messages, variables, messages.size(), true);
}

}  // namespace plimsoll
