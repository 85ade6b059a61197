// Causal language models through the whole program: texts to learn, and commands over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program_fixture.h"

namespace plimsoll::test {

using nlohmann::json;

class LanguageModel : public ProgramTest {
 protected:
  void SetUp() override {
    write_texts("texts.jsonl");
    std::vector<json> texts(24);
    for (json& text : texts) text = {{"prompt", "What is paid in cash? "}, {"completion", "The total."}};
    write_pages("answers.jsonl", texts);
  }
  Arguments check_of(const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"check",        "--task", "causal-lm", "--model", "llama-tiny", "--data", path("pages/" + data),
                     "--max-length", "32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments train(const std::string& run, const std::string& data, const Arguments& more = {}) const {
    Arguments all = {"train",
                     "--task",
                     "causal-lm",
                     "--model",
                     "llama-tiny",
                     "--data",
                     path("pages/" + data),
                     "--output-dir",
                     path(run),
                     "--budget",
                     "1GiB",
                     "--threads",
                     "1",
                     "--max-length",
                     "32",
                     "--learning-rate",
                     "5e-3",
                     "--seed",
                     "3",
                     "--logging-steps",
                     "1",
                     "--warmup-ratio",
                     "0"};
    // An option that is here already gets the other value.
    for (std::size_t i = 0; i < more.size(); ++i) {
      const auto known = std::ranges::find(all, more[i]);
      if (known != all.end() && more[i].starts_with("--")) {
        *(known + 1) = more[++i];
      } else {
        all.push_back(more[i]);
      }
    }
    return all;
  }
  // The arguments of a run with --json, with the smallest budget that a refusal of it names.
  Arguments with_smallest_budget(Arguments arguments) const {
    std::string& budget = *(std::ranges::find(arguments, "--budget") + 1);
    budget = "10MiB";
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.code, 4) << refused.out << refused.err;
    const std::size_t last = refused.out.find_last_of('\n', refused.out.size() - 2);
    const json error = json::parse(refused.out.substr(last == std::string::npos ? 0 : last + 1));
    budget = std::to_string(error.at("error").at("smallest_budget_bytes").get<std::int64_t>());
    return arguments;
  }
  json evaluated(const std::string& model, const std::string& data) const {
    const Outcome outcome = run({"eval", "--model", path(model), "--data", path("pages/" + data), "--budget", "1GiB",
                                 "--threads", "1", "--max-length", "32", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
};

}  // namespace plimsoll::test
