// A model with a trimmed vocabulary gives the same results, as train, eval and predict see it.
#include <span>

#include "formats/safetensors.h"
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

class Trim : public ProgramTest {
 protected:
  void SetUp() override {
    draw_pages();
    ASSERT_EQ(run(train_arguments("run", {"--max-steps", "2"})).code, 0);
  }
  Outcome trim(const Arguments& more = {}) const { return trimmed("run", more); }
  Outcome trimmed(const std::string& model, const Arguments& more) const {
    Arguments all = {"trim",         "--model",    path(model), "--data", path("pages/train.jsonl"),
                     "--output-dir", path("small")};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  json evaluation(const std::string& model) const {
    const Outcome outcome =
        run({"eval", "--model", path(model), "--data", path("pages/train.jsonl"), "--threads", "1", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    json object = outcome.code == 0 ? json::parse(outcome.out) : json();
    for (const char* key : {"predicted_peak_bytes", "measured_peak_bytes", "seconds"}) object.erase(key);
    return object;
  }
  std::string predictions(const std::string& model) const {
    EXPECT_EQ(run({"predict", "--model", path(model), "--data", path("pages/train.jsonl"), "--output",
                   path("out.jsonl"), "--return-all-scores", "--threads", "1"})
                  .code,
              0);
    return file_bytes(at("out.jsonl"));
  }
};

TEST_F(Trim, TheSamePagesGiveTheSameBits) {
  const Outcome trimmed = trim({"--eval-data", path("pages/validation.jsonl"), "--json"});
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  const json told = json::parse(trimmed.out);
  EXPECT_LT(told.at("vocab_size"), told.at("vocab_size_before"));
  EXPECT_LT(told.at("parameters"), told.at("parameters_before"));
  EXPECT_GE(told.at("evaluation").at("tokens"), told.at("evaluation").at("tokens_before"));
  EXPECT_GT(told.at("unseen_tokens_percent"), 0);
  const json before = json::parse(file_bytes(at("run/config.json"))),
             now = json::parse(file_bytes(at("small/config.json")));
  EXPECT_EQ(now.at("vocab_size"), told.at("vocab_size"));
  EXPECT_EQ(now.at("pad_token_id"), before.at("pad_token_id"));
  EXPECT_FALSE(fs::exists(at("small/.plimsoll")));
  EXPECT_EQ(evaluation("small"), evaluation("run"));
  EXPECT_EQ(predictions("small"), predictions("run"));
  // It goes on as any other model does.
  Arguments again = train_arguments("again", {"--max-steps", "1"});
  *(std::find(again.begin(), again.end(), "--model") + 1) = path("small");
  const Outcome trained = run(again);
  EXPECT_EQ(trained.code, 0) << trained.err;
}

// As of a masked language model whose head nobody reads here: it stays, with the rows of the tokens that stay.
TEST_F(Trim, OtherTensorsStayInTheirTypes) {
  fs::copy(at("run"), at("masked"), fs::copy_options::recursive);
  fs::remove(at("masked/checksums.json"));
  const std::int64_t before = json::parse(file_bytes(at("run/config.json"))).at("vocab_size");
  {
    const SafetensorsReader old(at("run/model.safetensors"));
    std::vector<TensorDeclaration> tensors;
    for (const TensorEntry& entry : old.entries()) tensors.push_back({entry.name, entry.type});
    tensors.push_back({"lm_head.bias", {DType::kF16, {before}}});
    tensors.push_back({"lm_head.dense.bias", {DType::kBF16, {3}}});
    SafetensorsWriter writer(at("masked/model.safetensors"), tensors);
    for (const TensorEntry& entry : old.entries()) {
      std::vector<std::byte> bytes(entry.type.bytes());
      old.read(entry.name, bytes);
      writer.write(bytes);
    }
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(before));
    for (std::size_t id = 0; id < numbers.size(); ++id) numbers[id] = static_cast<std::uint16_t>(id);  // as bits
    writer.write(std::as_bytes(std::span(numbers)));
    writer.write(std::as_bytes(std::span(numbers).first(3)));
    writer.finish();
  }
  const Outcome trimmed = Trim::trimmed("masked", {"--json"});
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  const SafetensorsReader now(at("small/model.safetensors"));
  const auto read = [&](const char* name) {
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(now.at(name).type.shape.elements()));
    now.read(name, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  };
  EXPECT_EQ(now.at("lm_head.bias").type, (TensorType{DType::kF16, {json::parse(trimmed.out).at("vocab_size")}}));
  const std::vector<std::uint16_t> kept = read("lm_head.bias");
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_GT(kept.back(), kept.size());  // they are the old ids
  EXPECT_EQ(read("lm_head.dense.bias"), (std::vector<std::uint16_t>{0, 1, 2}));
  EXPECT_EQ(evaluation("small"), evaluation("run"));
}

TEST_F(Trim, TokensThatGenerationNamesHaveTheirNewNumbers) {
  write_texts("texts.jsonl");
  ASSERT_EQ(run({"init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", path("decoder")}).code, 0);
  json generation = {{"eos_token_id", {2, 7001}},         {"suppress_tokens", {7002}},
                     {"bad_words_ids", {{7003, 7001}}},   {"sequence_bias", {{{7004}, -1.5}}},
                     {"forced_decoder_ids", {{1, 7005}}}, {"max_length", 7001}};
  fs::remove(at("decoder/checksums.json"));
  write_bytes(at("decoder/generation_config.json"), generation.dump());
  const Outcome trimmed = run({"trim", "--model", path("decoder"), "--data", path("pages/texts.jsonl"), "--output-dir",
                               path("small"), "--json"});
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  const std::int64_t size = json::parse(trimmed.out).at("vocab_size");
  ASSERT_LT(size, 7001);
  const json now = json::parse(file_bytes(at("small/generation_config.json")));
  // They are kept, and stand in their order.
  const std::int64_t first = now.at("eos_token_id")[1];
  EXPECT_LT(first, size);
  EXPECT_EQ(now.at("suppress_tokens"), json({first + 1}));
  EXPECT_EQ(now.at("bad_words_ids"), json::array({json::array({first + 2, first})}));
  EXPECT_EQ(now.at("sequence_bias"), json::array({json::array({json::array({first + 3}), -1.5})}));
  EXPECT_EQ(now.at("forced_decoder_ids"), json::array({json::array({1, first + 4})}));
  EXPECT_EQ(now.at("max_length"), 7001);
}

// By their ids, and in the lines themselves.
TEST_F(Trim, ReadsPairs) {
  ASSERT_EQ(run({"init", "--model", "roberta-tiny", "--task", "pair-ranking", "--output-dir", path("pairs")}).code, 0);
  const std::vector<json> pages = read_pages("train.jsonl");
  write_pages("ids.jsonl", {{{"a", pages[0].at("id")}, {"b", pages[1].at("id")}}});
  write_pages("texts.jsonl", {{{"a", {{"text", "The total"}}}, {"b", {{"text", "A date"}}}}});
  Arguments arguments = {"trim",
                         "--model",
                         path("pairs"),
                         "--output-dir",
                         path("ids"),
                         "--data",
                         path("pages/ids.jsonl"),
                         "--pages",
                         path("pages/train.jsonl")};
  const Outcome by_ids = run(arguments);
  EXPECT_EQ(by_ids.code, 0) << by_ids.err;
  arguments = {"trim", "--model", path("pairs"), "--output-dir", path("texts"), "--data", path("pages/texts.jsonl")};
  const Outcome in_lines = run(arguments);
  EXPECT_EQ(in_lines.code, 0) << in_lines.err;
  EXPECT_THAT(in_lines.out, HasSubstr("2 pages"));
}

TEST_F(Trim, TellsWhatLeavesAndWhatFurtherTextWouldLose) {
  const Outcome trimmed = trim();
  ASSERT_EQ(trimmed.code, 0) << trimmed.err;
  for (const char* part : {"of 8000 tokens", "parameters instead of", "the same pieces as before", "smaller ones"}) {
    EXPECT_THAT(trimmed.out, HasSubstr(part));
  }
}

TEST_F(Trim, RefusesWhatItCannotTrim) {
  expect_message(
      run({"trim", "--model", "layoutlmv3-tiny", "--data", path("pages/train.jsonl"), "--output-dir", path("small")}),
      2, {"layoutlmv3-tiny"});
  expect_message(trim({"--output-dir", path("run")}), 2, {"--output-dir"});
  ASSERT_EQ(run({"init", "--model", "layoutlmv3-tiny", "--output-dir", path("base")}).code, 0);
  Arguments adapters = train_arguments("adapter", {"--max-steps", "1", "--lora-rank", "2"});
  *(std::find(adapters.begin(), adapters.end(), "--model") + 1) = path("base");
  ASSERT_EQ(run(adapters).code, 0);
  expect_message(
      run({"trim", "--model", path("adapter"), "--data", path("pages/train.jsonl"), "--output-dir", path("small")}), 2,
      {"an adapter has no vocabulary of its own", "plimsoll merge"});
  EXPECT_FALSE(fs::exists(at("small")));
}

}  // namespace
}  // namespace plimsoll
