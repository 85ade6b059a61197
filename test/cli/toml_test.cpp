#include "cli/toml.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Toml, KeepsTheOrderAndTheLines) {
  const TomlFile file =
      parse_toml("z = 1\na = 0.5 # half\n[train]\nlabels = [\n  'O',\n  'B-X']\nb.y = true\nb.x = 2\n");
  EXPECT_EQ(file.values.dump(), R"({"z":1,"a":0.5,"train":{"labels":["O","B-X"],"b":{"y":true,"x":2}}})");
  EXPECT_EQ(file.lines.at("a"), 2U);
  EXPECT_EQ(file.lines.at("train.labels"), 4U);
  EXPECT_EQ(file.lines.at("train.b.x"), 8U);
}

TEST(Toml, GivesWhatJsonLacksAsText) {
  const TomlFile file = parse_toml("rate = -inf\nday = 1979-05-27\nat = 07:32:00\n");
  EXPECT_EQ(file.values.dump(), R"({"rate":"-inf","day":"1979-05-27","at":"07:32:00"})");
}

TEST(Toml, SaysWhereATextStopsBeingToml) {
  try {
    parse_toml("a = 1\nb = = 2\n");
    FAIL();
  } catch (const TomlError& error) {
    EXPECT_EQ(error.line(), 2U);
    EXPECT_EQ(error.column(), 5U);
  }
  EXPECT_THROW(parse_toml("a = 1\na = 2\n"), TomlError);
  EXPECT_THROW(parse_toml("a = '\xFF'\n"), TomlError);
}

// Tables within tables end by recursion.
TEST(Toml, RefusesKeysAndListsThatNestTooDeep) {
  for (const char* separator : {".", " . ", ".\"b=c\".", ".\"\\\"=\".", ".'\\'.b."}) {
    std::string key = "a";
    for (int i = 0; i < 200'000; ++i) key += separator + std::string("a");
    EXPECT_THROW(parse_toml(key + " = 1"), TomlError) << separator;
    EXPECT_THROW(parse_toml("x = 1\n[" + key + "]"), TomlError) << separator;
  }
  EXPECT_THROW(parse_toml("a = " + std::string(200'000, '[')), TomlError);
  EXPECT_NO_THROW(parse_toml("path = '" + std::string(99, '.') + "'"));
}

}  // namespace
}  // namespace plimsoll
