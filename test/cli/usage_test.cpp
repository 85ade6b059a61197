// Options: names, config files, what is not one.
#include "program_fixture.h"

namespace plimsoll {
namespace {

using namespace test;

class Usage : public ProgramTest {};

TEST_F(Usage, UnknownOptionsAndCommandsAreUsageErrors) {
  const Outcome option = run({"synth", "--output", path("pages"), "--colour", "red"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, testing::HasSubstr("--colour"));
  EXPECT_EQ(run({"polish"}).code, 2);
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"train", "--model", "layoutlmv3-tiny"}).code, 2);  // --data is missing
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({"--version"}).code, 0);
}

TEST_F(Usage, UnderscoresAreAsGoodAsDashes) {
  const Outcome outcome = run({"synth", "--output", path("pages"), "--count", "4", "--validation_fraction=0.5"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_pages("validation.jsonl").size(), 2U);
}

TEST_F(Usage, SameSeedSameBytes) {
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(run({"synth", "--output", path(name), "--count", "3", "--seed", "11"}).code, 0);
  }
  ASSERT_EQ(run({"synth", "--output", path("c"), "--count", "3", "--seed", "12"}).code, 0);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(at("a"))) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_TRUE(file_bytes(entry.path()) == file_bytes(at("b") / fs::relative(entry.path(), at("a")))) << entry.path();
  }
  EXPECT_GE(files, 5);
  EXPECT_NE(file_bytes(at("a/train.jsonl")), file_bytes(at("c/train.jsonl")));
}

TEST_F(Usage, ConfigFilesInJsonAndToml) {
  write_bytes(at("options.json"), R"({"count": 5, "validation_fraction": 0.4})");
  write_bytes(at("options.toml"), "count = 5\nvalidation-fraction = 0.4\n");
  for (const char* name : {"options.json", "options.toml"}) {
    fs::remove_all(at("pages"));
    const Outcome outcome = run({"synth", "--output", path("pages"), "--config", path(name)});
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    EXPECT_EQ(read_pages("train.jsonl").size(), 3U) << name;
    EXPECT_EQ(read_pages("validation.jsonl").size(), 2U) << name;
  }
  // The command line wins over the file; a name that is no option is not passed over.
  ASSERT_EQ(run({"synth", "--output", path("few"), "--config", path("options.json"), "--count", "2"}).code, 0);
  EXPECT_FALSE(fs::exists(at("few/images/00004.png")));
  write_bytes(at("wrong.json"), R"({"cuont": 5})");
  const Outcome wrong = run({"synth", "--output", path("x"), "--config", path("wrong.json")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, testing::HasSubstr("cuont"));
  write_bytes(at("wrong.json"), R"({"count": )");
  EXPECT_EQ(run({"synth", "--output", path("x"), "--config", path("wrong.json")}).code, 2);
}

}  // namespace
}  // namespace plimsoll
