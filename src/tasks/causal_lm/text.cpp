#include "tasks/causal_lm/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/in_quotes.h"
#include "base/nearest.h"
#include "data/chat.h"
#include "data/dataset.h"
#include "data/packed.h"
#include "data/page_faults.h"
#include "formats/json.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;

constexpr const char* kForms = "`text`, or `prompt` and `completion`, or `messages`";

[[noreturn]] void fail_messages(const Page& page, ConversationFault fault) {
  throw PageError("messages-wrong", {.what = "a page's `messages` are no conversation",
                                     .where = place(page),
                                     .found = std::move(fault.found),
                                     .allowed = std::move(fault.allowed),
                                     .remedy = std::move(fault.remedy)});
}

// Returns the text of a conversation, in parts. `line` has what the template gets besides messages; answers before the
// message `first` are not learnt.
std::vector<std::string> read_messages(const ordered_json& line, ordered_json messages, const Page& page,
                                       const ChatForm* chat, std::size_t first = 0) {
  if (chat == nullptr) {
    throw PageError("no-chat-template",
                    {.what = "a page has a conversation, and the model no chat template",
                     .where = place(page),
                     .found = "`messages`, and no chat_template in tokenizer_config.json, nor a chat_template.jinja",
                     .allowed = "`text`, or `prompt` and `completion`",
                     .remedy = "put the chat_template.jinja that you want beside the model's tokenizer"});
  }
  const Conversation conversation = conversation_of(line, std::move(messages));
  if (auto fault = find_fault(conversation)) fail_messages(page, std::move(*fault));
  try {
    return chat->turns(conversation, first);
  } catch (const DataError& error) {
    Problem problem = error.problem();
    problem.where = problem.where.empty() ? place(page) : fmt::format("{}, by {}", place(page), problem.where);
    throw PageError("messages-refused", std::move(problem));
  }
}

[[noreturn]] void fail_twice(const Page& page, const char* one, const char* other) {
  throw PageError("text-twice", {.what = "a page has a text in two ways",
                                 .where = place(page),
                                 .found = fmt::format("`{}` and `{}`", one, other),
                                 .allowed = kForms,
                                 .remedy = "omit one of them"});
}

// Returns the same object with the order of its keys. A line that has NaN, which JSON does not know, loses it.
ordered_json with_order(const nlohmann::json& json, std::string_view line) {
  ordered_json ordered = parse_ordered_json(line);
  return ordered.is_discarded() ? ordered_json(json) : ordered;
}

[[noreturn]] void fail_without_text(const nlohmann::json& json, const Page& page, const char* key) {
  struct Other {
    const char *first, *second, *found, *remedy;
  };
  static constexpr Other kOthers[] = {
      {"chosen", "rejected", "`chosen` and `rejected`: preferences",
       "to learn the better answers, rename `chosen` to `completion`; to learn to rank them, pass --task pair-ranking"},
      {"conversations", "conversations", "`conversations`, ShareGPT's form",
       "write them as `messages`, each with a `role` and a `content`: docs/data.md has the command"},
      {"instruction", "output", "`instruction` and `output`, Alpaca's form",
       "write them as `prompt` and `completion`, or as `messages`: docs/data.md has the command"},
      {"question", "answer", "`question` and `answer`", "rename them to `prompt` and `completion`"}};
  Problem problem{.what = "a page has no text to learn",
                  .where = place(page),
                  .found = fmt::format("no `{}`", key),
                  .allowed = kForms,
                  .remedy = "add it, or pass the --task that the data are for"};
  for (const Other& other : kOthers) {
    if (!json.contains(other.first) || !json.contains(other.second)) continue;
    problem.found = other.found;
    problem.remedy = other.remedy;
    break;
  }
  throw PageError("text-missing", std::move(problem));
}

bool has_list(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array();
}

// True if `prompt` and `completion` are lists of messages, as in data sets for TRL.
bool is_asked_and_answered(const nlohmann::json& json) {
  return has_list(json, "prompt") || has_list(json, "completion");
}

// Returns their text in parts. Earlier answers, which a prompt may have, are not learnt.
std::vector<std::string> read_asked_and_answered(ordered_json line, const Page& page, const ChatForm* chat) {
  constexpr const char* kLists = "a list of messages, as the other is; or both texts";
  for (const char* key : {"prompt", "completion"}) {
    if (line.contains(key) && line.at(key).is_array()) continue;
    throw wrong_type(page, fmt::format("`{}`", key), line.value(key, ordered_json()), kLists);
  }
  ordered_json completion = std::move(line["completion"]), messages = std::move(line["prompt"]);
  const auto is_answer = [](const ordered_json& message) {
    return message.is_object() && message.value("role", ordered_json()) == "assistant";
  };
  const auto fail = [&page](const char* found, const char* remedy) {
    fail_messages(page, {.found = found, .allowed = R"([{"role": "assistant", "content": "…"}])", .remedy = remedy});
  };
  if (completion.empty() || !is_answer(completion.front()) || !is_answer(completion.back()))
    fail("a `completion` that does not begin and end with an assistant's message", "give the answer alone");
  if (messages.empty()) fail("a `prompt` without a message", "give it the messages before the answer");
  const std::size_t first = messages.size();
  for (ordered_json& message : completion) messages.push_back(std::move(message));
  return read_messages(line, std::move(messages), page, chat, first);
}

// The roles in the templates of Llama, Qwen, SmolLM, Mistral, Gemma, Granite and OpenAI's models.
constexpr std::array<std::string_view, 13> kRoles = {"system", "user",    "assistant",  "tool",    "function",
                                                     "model",  "ipython", "developer",  "context", "document",
                                                     "tools",  "control", "environment"};

std::string odd_role_in(const nlohmann::json& json) {
  for (const char* key : {"messages", "prompt", "completion"}) {
    if (!has_list(json, key)) continue;
    for (const nlohmann::json& message : json.at(key)) {
      const auto role = message.is_object() ? message.value("role", nlohmann::json()) : nlohmann::json();
      if (role.is_string() && std::ranges::find(kRoles, role.get_ref<const std::string&>()) == kRoles.end())
        return role;
    }
  }
  return {};
}

class TextReader final : public TargetReader {
 public:
  std::shared_ptr<const PageTarget> read(const nlohmann::json& json, const Page&, PageFaults*) const override {
    const bool is_chat = json.contains("messages") || is_asked_and_answered(json);
    return std::make_shared<PageText>(is_chat, json.contains("label"), odd_role_in(json));
  }
  std::string_view key() const override { return "text"; }
  bool reads_text() const override { return true; }

  std::vector<std::string> text(const nlohmann::json& json, std::string_view line, const Page& page,
                                const ChatForm* chat) const override {
    if (json.contains("messages")) {
      for (const char* key : {"text", "completion"}) {
        if (json.contains(key)) fail_twice(page, "messages", key);
      }
      // UltraChat's lines repeat the first message as `prompt`, which TRL passes over, too.
      if (has_list(json, "prompt")) fail_twice(page, "messages", "prompt");
      ordered_json ordered = with_order(json, line);
      ordered_json messages = std::move(ordered["messages"]);  // long ones are not kept twice
      return read_messages(ordered, std::move(messages), page, chat);
    }
    const bool whole = json.contains("text") || !(json.contains("prompt") || json.contains("completion"));
    for (const char* key : {"prompt", "completion"}) {
      if (json.contains("text") && json.contains(key)) fail_twice(page, "text", key);
    }
    if (is_asked_and_answered(json)) return read_asked_and_answered(with_order(json, line), page, chat);
    std::vector<std::string> parts;
    for (const char* key : whole ? std::vector{"text"} : std::vector{"prompt", "completion"}) {
      const auto found = json.find(key);
      if (found == json.end()) fail_without_text(json, page, key);
      if (!found->is_string()) throw wrong_type(page, fmt::format("`{}`", key), *found, "a string");
      parts.push_back(found->get<std::string>());
    }
    if (parts.back().empty()) {
      throw PageError("text-empty", {.what = "a page's text is empty",
                                     .where = place(page),
                                     .found = fmt::format("`{}`: \"\"", whole ? "text" : "completion"),
                                     .allowed = "at least one character",
                                     .remedy = "omit the line, or write the text"});
    }
    return parts;
  }

  void pack(const PageTarget& target, Packer& out) const override {
    const auto& text = dynamic_cast<const PageText&>(target);
    out.number((text.frames_text() ? 1 : 0) + (text.has_label() ? 2 : 0));
    out.text(text.odd_role());
  }
  std::shared_ptr<const PageTarget> unpack(Unpacker& in) const override {
    const std::int64_t packed = in.number();
    return std::make_shared<PageText>(packed % 2 != 0, packed / 2 % 2 != 0, in.text());
  }
};

class NextTokenTargets final : public Targets {
 public:
  void encode(const PageWindow& window, EncodedExample& out) const override {
    out.loss_terms = 0;
    for_each_learnt(window, [&](std::int32_t row, std::size_t next) {
      out.labels[window.first_row + static_cast<std::size_t>(row)] = window.tokens.ids[next];
      ++out.loss_terms;
    });
  }
  std::optional<std::int64_t> learnt_tokens(const PageWindow& window) const override {
    std::int64_t count = 0;
    for_each_learnt(window, [&](std::int32_t, std::size_t) { ++count; });
    return count;
  }
  void check(const Page& page, bool, Findings& findings, std::map<std::string, std::uint64_t>&) const override {
    const auto* const text = dynamic_cast<const PageText*>(page.target.get());
    if (text == nullptr) return;
    if (!text->odd_role().empty()) {
      const std::string meant = nearest(text->odd_role(), {kRoles.begin(), kRoles.end()});
      findings.add(Severity::kWarning, "role-unknown",
                   {.what = "a message has a role that chat templates do not know",
                    .where = place(page),
                    .found = in_quotes(text->odd_role()),
                    .allowed = "system, user or assistant, mostly; what an assistant says is learnt",
                    .remedy = meant.empty() ? "check the role" : fmt::format("did you mean \"{}\"?", meant)});
    }
    if (!text->has_label()) return;
    findings.add(Severity::kWarning, "label-not-read",
                 {.what = "a text has a `label`, which a language model does not learn",
                  .where = place(page),
                  .allowed = kForms,
                  .remedy = "pass --task sequence-classification to learn labels of texts"});
  }

 private:
  // Calls body(row of the window, the token that is learnt there, that is, the next one).
  template <typename Body>
  static void for_each_learnt(const PageWindow& window, const Body& body) {
    // Every second part is learned, including the last.
    const std::size_t learned = (window.page.words.size() - 1) % 2;
    const Window& cut = window.windows[window.index];
    // The tokens that the window shares with the one before it, by --stride, are context: they were learnt there.
    const std::int32_t first = window.index == 0 ? cut.begin : window.windows[window.index - 1].end - 1;
    for (std::int32_t token = std::max(cut.begin, first); token + 1 < cut.end; ++token) {
      const auto next = static_cast<std::size_t>(token) + 1;
      if (static_cast<std::size_t>(window.tokens.words[next]) % 2 == learned) body(token - cut.begin, next);
    }
  }
};

}  // namespace

const TargetReader& text_reader() {
  static const TextReader reader;
  return reader;
}

std::shared_ptr<const Targets> next_token_targets() { return std::make_shared<NextTokenTargets>(); }

}  // namespace plimsoll
