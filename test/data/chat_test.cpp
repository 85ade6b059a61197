#include "data/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr const char* kMarkers =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}"
    "<assistant>{% endif %}";

json message(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

TEST(ChatForm, CutsATextBeforeAndBehindEachAnswer) {
  const ChatForm chat(kMarkers, "here", {{"bos_token", "^"}});
  const json messages = {message("system", "s"), message("user", "a"),      message("assistant", "b"),
                         message("user", "c"),   message("assistant", "d"), message("user", "e")};
  EXPECT_THAT(chat.turns(messages),
              ElementsAre("^<system>s</><user>a</><assistant>", "b</>", "<user>c</><assistant>", "d</>"));
  EXPECT_EQ(chat.prompt(messages),
            "^<system>s</><user>a</><assistant>b</><user>c</><assistant>d</><user>e</><assistant>");
}

// A template that prints a message whole prints its keys in the order of the file, as far as it knows that.
TEST(ChatForm, AMessageBeginsWithItsRole) {
  const ChatForm chat("{{ messages[0] | tojson }}", "here", {});
  EXPECT_EQ(chat.prompt(json::array({message("user", "a")})), R"({"role": "user", "content": "a"})");
}

// As templates that leave out what was thought before earlier answers.
TEST(ChatForm, OfATemplateThatRewritesEarlierAnswersTheLastIsLearnt) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}!{% endif %}{{ m.content }}{% "
      "endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "here", {});
  const json messages = {message("user", "a"),      message("assistant", "b"), message("user", "c"),
                         message("assistant", "d"), message("user", "e"),      message("assistant", "f")};
  EXPECT_THAT(chat.turns(messages), ElementsAre("<user>a<assistant>b<user>c<assistant>d<user>e<assistant>", "!f"));
}

TEST(ChatForm, VariablesOfALineReachTheTemplate) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
      "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}",
      "here", {});
  const json question = json::array({message("user", "a")}), quiet = {{"enable_thinking", false}};
  EXPECT_EQ(chat.prompt(question), "<user>a<assistant>");
  EXPECT_EQ(chat.prompt(question, quiet), "<user>a<assistant><think></think>");
  EXPECT_EQ(fault_in_variables(quiet), std::nullopt);
  EXPECT_EQ(fault_in_variables(json()), std::nullopt);
  EXPECT_TRUE(fault_in_variables(json::array()).has_value());
  EXPECT_EQ(fault_in_variables({{"tools_in_xml", json::array()}}), std::nullopt);
  EXPECT_TRUE(has_tools({{"tools", {{{"name", "add"}}}}}));
  for (const json& none :
       {json::object(), json{{"tools", nullptr}}, json{{"tools", json::array()}}, json{{"tools", "[]"}}})
    EXPECT_FALSE(has_tools(none)) << none;
}

// As DeepSeek's R1, whose request begins the answer's thinking.
TEST(ChatForm, AnAnswerMayLackWhatItsRequestBegins) {
  const ChatForm chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>(think){% endif %}",
      "here", {});
  for (const char* answer : {"b", "(b)", "(thanks)"}) {
    EXPECT_THAT(chat.turns(json::array({message("user", "a"), message("assistant", answer)})),
                ElementsAre("<user>a<assistant>", answer));
  }
}

TEST(ChatForm, WhatCannotBeLearntIsRefused) {
  const ChatForm chat(kMarkers, "here", {});
  expect_error<DataError>([&] { chat.turns(json::array({message("user", "a")})); }, {"assistant"});
  const ChatForm other("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}", "here", {});
  expect_error<DataError>(
      [&] {
        other.turns(json::array({message("user", "a"), message("assistant", "b")}));
      },
      {"differently"});
  const ChatForm broken("{% what %}", "here", {});
  expect_error<DataError>(
      [&] {
        broken.turns(json::array({message("user", "a"), message("assistant", "b")}));
      },
      {"what", "here"});
  EXPECT_EQ(fault_in_messages(json::array({message("user", "a")})), std::nullopt);
  for (const json& wrong : {json::array(), json("a"), json::array({json("a")}), json::array({{{"role", "user"}}}),
                            json::array({{{"role", "user"}, {"content", "a"}, {"tool_calls", json::array({1})}}})}) {
    EXPECT_TRUE(fault_in_messages(wrong).has_value()) << wrong;
  }
  const ChatForm strict("{{ raise_exception('no ' ~ messages[0].role) }}", "here", {});
  expect_error<DataError>(
      [&] {
        strict.turns(json::array({message("user", "a"), message("assistant", "b")}));
      },
      {"no user"});
}

}  // namespace
}  // namespace plimsoll::test
