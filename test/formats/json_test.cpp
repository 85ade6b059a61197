#include "formats/json.h"

#include "formats/support.h"

namespace plimsoll {
namespace {

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(Json, TakesWhatNestsLikeAFileAndRefusesMore) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": null}]})", "here")["a"][0], 1);
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "here").is_array());
  for (const std::size_t levels : {std::size_t{kMaxJsonDepth} + 1, std::size_t{10'000'000}}) {
    EXPECT_THAT(data_error([&] { parse_json(nested(levels), "here"); }),
                testing::AllOf(testing::HasSubstr("here"), testing::HasSubstr("deeper"), testing::HasSubstr("100")));
  }
}

TEST(Json, CountsOpenBracketsOnly) {
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) wide += R"([{}, "[{\"[{", "\\"],)";
  wide.back() = ']';
  EXPECT_FALSE(nests_too_deep(wide));
  EXPECT_EQ(parse_json(wide, "here").size(), 1000U);
}

TEST(Json, SaysByDiscardingThatATextIsNone) {
  for (const char* text : {"", "{", "[1,]", "nul", "\xFF", "\"\\"}) {
    EXPECT_TRUE(parse_json(text, "here").is_discarded()) << text;
  }
  // The library would end at a NUL byte.
  EXPECT_TRUE(parse_json(std::string_view("{}\0garbage", 10), "here").is_discarded());
}

TEST(Json, DiscardsWhatNestsTooDeepWhereNoPlaceIsGiven) {
  EXPECT_TRUE(parse_json(nested(10'000'000)).is_discarded());
  EXPECT_TRUE(parse_json("[1,]").is_discarded());
  EXPECT_EQ(parse_json(R"({"a": 1})")["a"], 1);
}

TEST(Json, FindsAKeyThatAnObjectHasTwice) {
  for (const char* text : {"{}", "3", R"("a")", R"({"a": "b", "b": "a"})", R"([{"a": 1}, {"a": 1}])",
                           R"({"a": {"a": {"a": ["a", "a"]}}, "b": [{"a": 1}]})", R"({"a\"": 1, "a": 2})",
                           R"({"a": "\"b\": 1, \"b\": 2"})"}) {
    EXPECT_EQ(repeated_key(text), std::nullopt) << text;
  }
  EXPECT_EQ(repeated_key(R"({"a": 1, "b": [2, 3], "a": 1})"), "a");
  EXPECT_EQ(repeated_key(R"({"a": [{"b": {"c": 1}, "b" : 1}]})"), "b");
  EXPECT_EQ(repeated_key(R"({"": 1, "": 2})"), "");
}

TEST(Json, AFaultIsFoundWithItsPlace) {
  const auto fault = [](std::string_view text) {
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
    return find_json_fault(text);
  };
  const JsonFault wrong = fault("{\n  \"a\": 1,\n  \"b\": nope\n}");
  EXPECT_EQ(wrong.line, 3U);
  EXPECT_EQ(wrong.column, 9U);  // where "no" is no longer "null"
  EXPECT_FALSE(wrong.is_cut);
  EXPECT_NE(wrong.found.find("nope"), std::string::npos) << wrong.found;
  const JsonFault cut = fault("{\"a\": [1,\n 2");
  EXPECT_TRUE(cut.is_cut);
  EXPECT_EQ(cut.line, 2U);
  const JsonFault large = fault("{\n\"a\": 1e400}");
  EXPECT_TRUE(large.is_too_large);
  EXPECT_FALSE(large.is_cut);
  EXPECT_EQ(large.line, 2U);
  EXPECT_EQ(large.column, 6U);
  EXPECT_EQ(large.found, "\"1e400\"");
  const JsonFault nul = fault(std::string_view("{}\0garbage", 10));
  EXPECT_EQ(nul.column, 3U);
  EXPECT_FALSE(nul.is_cut);
  EXPECT_TRUE(fault("").is_cut);
}

}  // namespace
}  // namespace plimsoll
