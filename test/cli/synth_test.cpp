// Tests what synth draws, by its --layout.
#include <set>

#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Synth : public ProgramTest {};

TEST_F(Synth, LayoutChoosesReceiptsOrForms) {
  const auto labels = [&](const std::vector<std::string>& options) {
    fs::remove_all(at("pages"));
    std::vector<std::string> arguments = {"synth", "--output", path("pages"), "--count", "4"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::set<std::string> names;
    for (const nlohmann::json& page : read_pages("train.jsonl")) {
      for (const auto& label : page.at("labels")) names.insert(label.get<std::string>());
      EXPECT_EQ(page.contains("links"), page.contains("entities"));
    }
    return names;
  };
  const std::set<std::string> plain = labels({}), receipts = labels({"--layout", "receipts"});
  EXPECT_EQ(plain, receipts);
  EXPECT_EQ(plain.count("B-TOTAL"), 1U);
  const std::set<std::string> forms = labels({"--layout", "forms"});
  EXPECT_EQ(forms,
            (std::set<std::string>{"O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER"}));
  expect_message(run({"synth", "--output", path("x"), "--layout", "letters"}), 2, {"--layout", "receipts", "forms"});
}

}  // namespace
}  // namespace plimsoll
