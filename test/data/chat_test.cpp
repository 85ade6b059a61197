#include "data/chat.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;

constexpr const char* kMarkers =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}"
    "<assistant>{% endif %}";

ordered_json message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

Conversation of(std::vector<ordered_json> messages) { return {.messages = std::move(messages)}; }
Conversation question() { return of({message("user", "a")}); }
Conversation answered(const char* answer = "b") { return of({message("user", "a"), message("assistant", answer)}); }

TEST(ChatForm, CutsATextBeforeAndBehindEachAnswer) {
  const ChatForm chat(kMarkers, "here", {{"bos_token", "^"}});
  const Conversation long_one = of({message("system", "s"), message("user", "a"), message("assistant", "b"),
                                    message("user", "c"), message("assistant", "d"), message("user", "e")});
  EXPECT_THAT(chat.turns(long_one),
              ElementsAre("^<system>s</><user>a</><assistant>", "b</>", "<user>c</><assistant>", "d</>"));
  EXPECT_EQ(chat.prompt(long_one),
            "^<system>s</><user>a</><assistant>b</><user>c</><assistant>d</><user>e</><assistant>");
}

// A template that prints a message whole prints its keys in the order of the line.
TEST(ChatForm, KeysKeepTheirOrder) {
  const ChatForm chat("{{ messages[0] | tojson }}{{ tools | tojson }}", "here", {});
  const auto line = ordered_json::parse(
      R"({"messages": [{"name": "x", "role": "user", "content": "a"}], "tools": [{"type": "f", "a": 1}]})");
  EXPECT_EQ(chat.prompt(conversation_of(line, line.at("messages"))),
            R"({"name": "x", "role": "user", "content": "a"}[{"type": "f", "a": 1}])");
}

// As templates that leave out what was thought before earlier answers.
TEST(ChatForm, OfATemplateThatRewritesEarlierAnswersTheLastIsLearnt) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}!{% endif %}{{ m.content }}{% "
      "endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "here", {});
  EXPECT_THAT(chat.turns(of({message("user", "a"), message("assistant", "b"), message("user", "c"),
                             message("assistant", "d"), message("user", "e"), message("assistant", "f")})),
              ElementsAre("<user>a<assistant>b<user>c<assistant>d<user>e<assistant>", "!f"));
}

TEST(ChatForm, WhatATemplateMarksIsLearnt) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}</>\n{% else %}{{ m.content }}{% endif %}{% endfor %}",
      "here", {});
  EXPECT_THAT(chat.turns(of({message("user", "a"), message("assistant", "b"), message("user", "c"),
                             message("assistant", "d"), message("user", "e")})),
              ElementsAre("<user>a<assistant>", "b", "</>\n<user>c<assistant>", "d"));
}

// As templates that mark an answer and its end apart: of a prompt's completion all its marks are learnt.
TEST(ChatForm, AnAnswerMayHaveSeveralMarks) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}{% generation %}</>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
      "here", {});
  const Conversation both = of({message("user", "a"), message("assistant", "b"), message("user", "c"),
                                message("assistant", "d"), message("tool", "e"), message("assistant", "f")});
  EXPECT_THAT(chat.turns(both),
              ElementsAre("<user>a<assistant>", "b</>", "<user>c<assistant>", "d</>", "<tool>e<assistant>", "f</>"));
  EXPECT_THAT(chat.turns(both, 3),
              ElementsAre("<user>a<assistant>b</><user>c<assistant>", "d</>", "<tool>e<assistant>", "f</>"));
}

TEST(ChatForm, AnswersOfAPromptAreContext) {
  const ChatForm chat(kMarkers, "here", {});
  const Conversation both =
      of({message("user", "a"), message("assistant", "b"), message("user", "c"), message("assistant", "d")});
  EXPECT_THAT(chat.turns(both, 3), ElementsAre("<user>a</><assistant>b</><user>c</><assistant>", "d</>"));
  expect_error<DataError>([&] { chat.turns(both, 4); }, {"no answer"});
}

// As Qwen 3.5, which looks for a question, and gpt-oss, which writes an answer that others follow in another way.
TEST(ChatForm, AnEarlierAnswerMayBeOneThatCannotBeToldApart) {
  const ChatForm strict(
      "{% if messages[-1].role != 'user' and messages | length < 3 %}{{ raise_exception('no question') }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
      "{% endif %}",
      "here", {});
  EXPECT_THAT(strict.turns(of({message("assistant", "a"), message("user", "b"), message("assistant", "c")})),
              ElementsAre("<assistant>a<user>b<assistant>", "c"));
  expect_error<DataError>([&] { strict.turns(of({message("user", "a"), message("assistant", "b")})); }, {"question"});
}

TEST(ChatForm, AMessageThatIsLeftOutIsRefused) {
  const ChatForm chat(
      "{% for m in messages if m.role != 'developer' %}<{{ m.role }}>{{ m.content | trim | upper if m.role == 'tool' "
      "else "
      "m.content }}{% endfor %}",
      "here", {});
  expect_error<DataError>(
      [&] {
        chat.turns(of({message("developer", "x"), message("assistant", "b")}));
      },
      {"leaves out", "message 0", "developer"});
  EXPECT_EQ(chat.turns(of({message("tool", " x "), message("assistant", "b")})).size(), 2U);
  Conversation thinking = answered();
  thinking.messages[1]["reasoning_content"] = "c";
  expect_error<DataError>([&] { chat.turns(thinking); }, {"`reasoning_content`", "message 1"});
  EXPECT_EQ(chat.prompt(thinking), "<user>a<assistant>b");
  // As templates that know lists of parts alone.
  const ChatForm parts(
      "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}</>{% endfor %}", "here",
      {});
  expect_error<DataError>(
      [&] {
        parts.turns(of({message("user", "what?"), message("assistant", "that")}));
      },
      {"leaves out", "message 0", "lists of parts"});
}

TEST(ChatForm, VariablesOfALineReachTheTemplate) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
      "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}",
      "here", {});
  EXPECT_EQ(chat.prompt(question()), "<user>a<assistant>");
  Conversation quiet = question();
  quiet.variables = {{"enable_thinking", false}};
  EXPECT_EQ(chat.prompt(quiet), "<user>a<assistant><think></think>");
  EXPECT_FALSE(find_fault(quiet));
  // What the template gets otherwise must not be given twice.
  for (const char* own : {"tools", "messages", "add_generation_prompt"}) {
    quiet.variables = {{own, ordered_json::array()}};
    const auto fault = find_fault(quiet);
    ASSERT_TRUE(fault) << own;
    EXPECT_THAT(fault->found, testing::HasSubstr(own));
  }
  quiet.variables = ordered_json::array();
  EXPECT_TRUE(find_fault(quiet));
}

constexpr const char* kTools =
    "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}({{ c.function.name }}){% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(ChatForm, ToolsAndTheirCallsReachTheTemplate) {
  const ChatForm chat(kTools, "here", {});
  const auto line = ordered_json::parse(R"({"tools": "[{\"name\": \"add\"}]", "messages": [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "add"}}]},
    {"role": "tool", "content": "3"}, {"role": "assistant", "content": "b"}]})");
  const Conversation calls = conversation_of(line, line.at("messages"));
  ASSERT_FALSE(find_fault(calls));
  EXPECT_THAT(chat.turns(calls), ElementsAre("[add]<user>a<assistant>", "(add)", "<tool>3<assistant>", "b"));
  // A template that would leave them out, without a word, is refused.
  const ChatForm plain(kMarkers, "here", {});
  expect_error<DataError>([&] { plain.turns(calls); }, {"`tools`", "1 tool"});
  Conversation without = calls;
  without.tools = nullptr;
  expect_error<DataError>([&] { plain.prompt(without); }, {"`tool_calls`", "message 1"});
  for (const char* none : {"null", "[]", "\"[]\"", "\"\""}) {
    const auto empty = ordered_json::parse(fmt::format(R"({{"tools": {}}})", none));
    EXPECT_TRUE(conversation_of(empty, question().messages).tools.is_null()) << none;
  }
  for (const char* wrong : {"\"add\"", "{}", "[1]", "5"}) {
    const auto odd = ordered_json::parse(fmt::format(R"({{"tools": {}}})", wrong));
    EXPECT_TRUE(find_fault(conversation_of(odd, question().messages))) << wrong;
  }
}

// As transformers takes the template that is named tool_use.
TEST(ChatForm, ToolsMayHaveATemplateOfTheirOwn) {
  ChatForm chat(kMarkers, "here", {});
  chat.use_for_tools(kTools, "there");
  Conversation asked = question();
  EXPECT_EQ(chat.prompt(asked), "<user>a</><assistant>");
  asked.tools = {{{"name", "add"}}};
  EXPECT_EQ(chat.prompt(asked), "[add]<user>a<assistant>");
}

// Templates look at the first message.
TEST(ChatForm, AConversationMayBeginWithAnAnswer) {
  const ChatForm chat(
      "{% if messages[0].role == 'system' %}!{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      "here", {});
  EXPECT_THAT(chat.turns(of({message("assistant", "a"), message("user", "b"), message("assistant", "c")})),
              ElementsAre("<assistant>", "a</>", "<user>b</><assistant>", "c</>"));
}

// As DeepSeek's R1, whose request begins the answer's thinking.
TEST(ChatForm, AnAnswerMayLackWhatItsRequestBegins) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>(think){% endif %}",
      "here", {});
  for (const char* answer : {"b", "(b)", "(thanks)"}) {
    EXPECT_THAT(chat.turns(answered(answer)), ElementsAre("<user>a<assistant>", answer));
  }
}

// As Qwen 3.5 without thinking, whose request ends the thinking at once.
TEST(ChatForm, AnAnswerMayThinkOtherwiseThanItsRequest) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}(think){{ m.thought or '' }}(/think)"
      "{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>(think)(/think){% endif %}",
      "here", {});
  Conversation thinking = answered();
  EXPECT_THAT(chat.turns(thinking), ElementsAre("<user>a<assistant>(think)(/think)", "b"));
  thinking.messages[1]["thought"] = "c";
  EXPECT_THAT(chat.turns(thinking), ElementsAre("<user>a<assistant>(think)", "c(/think)b"));
}

TEST(ChatForm, WhatCannotBeLearntIsRefused) {
  const ChatForm chat(kMarkers, "here", {});
  expect_error<DataError>([&] { chat.turns(question()); }, {"assistant"});
  const ChatForm other("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}", "here", {});
  expect_error<DataError>([&] { other.turns(answered()); }, {"differently"});
  const ChatForm broken("{% what %}", "here", {});
  expect_error<DataError>([&] { broken.turns(answered()); }, {"what", "here"});
  const ChatForm strict("{{ raise_exception('no ' ~ messages[0].role) }}", "here", {});
  expect_error<DataError>([&] { strict.turns(answered()); }, {"no user"});
}

TEST(Conversation, MessagesAreTexts) {
  for (const char* valid : {R"([{"role": "user", "content": "a"}])", R"([{"role": "user", "content": ""}])",
                            R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}])",
                            R"([{"role": "assistant", "tool_calls": [{}]}])",
                            R"([{"role": "assistant", "content": null, "reasoning_content": "a"}])"}) {
    EXPECT_FALSE(find_fault({.messages = ordered_json::parse(valid)})) << valid;
  }
  const std::pair<const char*, const char*> invalid[] = {
      {"[]", "no list"},
      {R"("a")", "no list"},
      {R"({"role": "user", "content": "a"})", "no list"},
      {R"(["a"])", "message 0"},
      {R"([{"role": "user"}])", "without a `content`"},
      {R"([{"role": "user", "content": null, "tool_calls": null}])", "without a `content`"},
      {R"([{"role": 1, "content": "a"}])", "`role`"},
      {R"([{"from": "human", "value": "a"}])", "`from`"},
      {R"([{"role": "user", "content": 5}])", "neither a text nor a list"},
      {R"([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "image"}]}])",
       "message 1 with a part"},
      {R"([{"role": "user", "content": ["a"]}])", "a part that is no text"}};
  for (const auto& [messages, found] : invalid) {
    const auto fault = find_fault({.messages = ordered_json::parse(messages)});
    ASSERT_TRUE(fault) << messages;
    EXPECT_THAT(fault->found, testing::HasSubstr(found));
  }
}

}  // namespace
}  // namespace plimsoll::test
