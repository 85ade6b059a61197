// Conversations through the whole program: templates, tools, what is learnt of them, and what is refused.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/language_model_fixture.h"

namespace plimsoll::test {
namespace {

TEST_F(LanguageModel, LearnsConversationsByTheModelsOwnTemplate) {
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  std::vector<json> chats;
  for (int i = 0; i < 24; ++i) {
    chats.push_back(
        {{"messages",
          {{{"role", "user"}, {"content", "Paid in cash?"}}, {{"role", "assistant"}, {"content", "The total."}}}}});
  }
  write_pages("chats.jsonl", chats);
  const Outcome without =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/chats.jsonl")});
  EXPECT_EQ(without.code, 3);
  EXPECT_THAT(without.out + without.err, testing::HasSubstr("no chat template"));
  write_bytes(at("base/chat_template.jinja"),
              "{% for m in messages %}\n[{{ m.role }}]{{ m.content }}{{ eos_token }}\n{% endfor %}\n"
              "{% if add_generation_prompt %}\n[assistant]{% endif %}");
  write_bytes(at("base/generation_config.json"), R"({"eos_token_id": [2], "do_sample": false})");
  const Outcome outcome = run(train("run", "chats.jsonl", {"--model", path("base"), "--max-steps", "60"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Both files go along.
  EXPECT_EQ(file_bytes(at("run/chat_template.jinja")), file_bytes(at("base/chat_template.jinja")));
  EXPECT_EQ(file_bytes(at("run/generation_config.json")), file_bytes(at("base/generation_config.json")));
  const Outcome answer = run({"generate", "--model", path("run"), "--chat", "--prompt", "Paid in cash?", "--budget",
                              "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, "The total.\n");
  // The answer that ends a conversation of the training data is left out, and given anew.
  const Outcome again = run({"generate", "--model", path("run"), "--data", path("pages/chats.jsonl"), "--budget",
                             "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  ASSERT_EQ(again.code, 0) << again.err;
  const json first = json::parse(again.out.substr(0, again.out.find('\n')));
  EXPECT_EQ(first.at("completion"), "The total.");
  EXPECT_THAT(first.at("prompt").get<std::string>(), testing::EndsWith("[assistant]"));
  // As lists, the prompt and its completion are the same conversation.
  write_pages("lists.jsonl", {{{"prompt", json::array({chats[0]["messages"][0]})},
                               {"completion", json::array({chats[0]["messages"][1]})}}});
  write_pages("chat.jsonl", {chats[0]});
  const auto answer_of = [&](const std::string& file) {
    const Outcome made = run({"generate", "--model", path("run"), "--data", path("pages/" + file), "--budget", "1GiB",
                              "--threads", "1", "--max-new-tokens", "12"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.out;
  };
  EXPECT_EQ(answer_of("lists.jsonl"), answer_of("chat.jsonl"));
  const auto loss_of = [&](const std::string& file) {
    const Outcome made = run({"eval", "--model", path("run"), "--data", path("pages/" + file), "--budget", "1GiB",
                              "--threads", "1", "--json"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.code == 0 ? json::parse(made.out).at("loss").get<double>() : -1;
  };
  EXPECT_EQ(loss_of("lists.jsonl"), loss_of("chat.jsonl"));
  // A smaller vocabulary numbers the tokens anew, in all files.
  const Outcome trimmed =
      run({"trim", "--model", path("run"), "--data", path("pages/chats.jsonl"), "--output-dir", path("small")});
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  EXPECT_THAT(trimmed.out, testing::HasSubstr("over different vocabularies"));
  const Outcome compared = run({"compare", path("run"), path("small"), "--data", path("pages/chats.jsonl"), "--budget",
                                "1GiB", "--threads", "1", "--rounds", "1"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.err, testing::HasSubstr("the models have different tokenizers"));
  const json config = json::parse(file_bytes(at("small/config.json")));
  EXPECT_LT(config.at("vocab_size"), 2000);
  EXPECT_EQ(json::parse(file_bytes(at("small/generation_config.json"))).at("eos_token_id"),
            json({config.at("eos_token_id")}));
  const Outcome same = run({"generate", "--model", path("small"), "--chat", "--prompt", "Paid in cash?", "--budget",
                            "1GiB", "--threads", "1", "--max-new-tokens", "12"});
  EXPECT_EQ(same.out, answer.out) << same.err;
  write_pages("wrong.jsonl",
              {{{"messages", {{{"role", "user"}}}}}, {{"messages", {{{"role", "user"}, {"content", "a"}}}}}});
  const Outcome wrong =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/wrong.jsonl")});
  write_pages("half.jsonl",
              {{{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", "12.50"}},
               {{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", chats[0]["messages"]}},
               {{"prompt", json::array({chats[0]["messages"][0]})}, {"completion", json::array({"12.50"})}},
               {{"prompt", json::array()}, {"completion", json::array({chats[0]["messages"][1]})}}});
  const Outcome half =
      run({"check", "--task", "causal-lm", "--model", path("base"), "--data", path("pages/half.jsonl")});
  EXPECT_EQ(half.code, 3);
  for (const char* part : {"`completion`", "a list of messages, as the other is",
                           "does not begin and end with an assistant", "a `prompt` without a message"}) {
    EXPECT_THAT(half.out + half.err, testing::HasSubstr(part));
  }
  EXPECT_EQ(wrong.code, 3);
  for (const char* part : {"wrong.jsonl:1", "message 0 without a `content`", "wrong.jsonl:2", "assistant"}) {
    EXPECT_THAT(wrong.out + wrong.err, testing::HasSubstr(part));
  }
}

TEST_F(LanguageModel, AConversationsToolsAreLearntFrom) {
  json chat = {{"messages",
                {{{"role", "user"}, {"content", "a"}},
                 {{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "add"}}}}}}},
                 {{"role", "tool"}, {"content", "3"}},
                 {{"role", "assistant"}, {"content", "b"}}}},
               {"tools", {{{"name", "add"}}}}};
  write_pages("tools.jsonl", {chat});
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("base")}).code, 0);
  // A token to which the tokenizer gives a name of its own is known by it.
  json config = json::parse(file_bytes(at("base/tokenizer_config.json")));
  config["extra_special_tokens"] = {{"image_token", "<image>"}};
  fs::remove(at("base/checksums.json"));
  write_bytes(at("base/tokenizer_config.json"), config.dump());
  const std::string begin = "{% if image_token != '<image>' %}{{ raise_exception('no image_token') }}{% endif %}",
                    end = "{{ eos_token }}{% endfor %}";
  write_bytes(at("base/chat_template.jinja"), begin + "{% for m in messages %}{{ m.content }}" + end);
  const auto checked = [&] {
    return run({"check", "--model", path("base"), "--task", "causal-lm", "--data", path("pages/tools.jsonl")});
  };
  const Outcome refused = checked();
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.out + refused.err, testing::HasSubstr("does not write `tools`"));
  fs::create_directories(at("base/additional_chat_templates"));
  write_bytes(at("base/additional_chat_templates/tool_use.jinja"),
              begin +
                  "{% for t in tools %}{{ t.name }}{% endfor %}{% for m in messages %}"
                  "{% for c in m.tool_calls or [] %}({{ c.function.name }}){% endfor %}{{ m.content or '' }}" +
                  end);
  EXPECT_EQ(checked().code, 0);
  // The template goes with the model.
  const Outcome trained = run(train("run", "tools.jsonl", {"--model", path("base"), "--max-steps", "1"}));
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(at("run/additional_chat_templates/tool_use.jinja")));
  const Outcome again =
      run(train("run", "tools.jsonl", {"--model", path("base"), "--max-steps", "1", "--overwrite-output-dir"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(fs::exists(at("run/earlier-1/additional_chat_templates/tool_use.jinja")));
  EXPECT_EQ(
      run({"generate", "--model", path("run"), "--data", path("pages/tools.jsonl"), "--max-new-tokens", "2"}).code, 0);
  chat["chat_template_kwargs"] = "quiet";
  write_pages("tools.jsonl", {chat});
  EXPECT_EQ(checked().code, 3);
}

}  // namespace
}  // namespace plimsoll::test
