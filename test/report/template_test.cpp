// The template fills its places, and no value of them can become markup.
#include "report/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Template, FillsPlacesAndSections) {
  EXPECT_EQ(fill_template("<b>{{name}}</b>", {{"name", "a"}}), "<b>a</b>");
  EXPECT_EQ(fill_template("{{#list}}[{{.}}]{{/list}}", {{"list", {1, "b", 2.5}}}), "[1][b][2.5]");
  EXPECT_EQ(fill_template("{{#rows}}({{#.}}{{.}},{{/.}}){{/rows}}", {{"rows", {{1, 2}, {3}}}}), "(1,2,)(3,)");
  EXPECT_EQ(fill_template("{{#of}}{{a}}{{b}}{{/of}}", {{"a", 1}, {"of", {{"b", 2}}}}), "12") << "outer names are seen";
  EXPECT_EQ(fill_template("{{#of}}{{a}}{{/of}}", {{"a", 1}, {"of", {{"a", 2}}}}), "2") << "inner names come first";
  EXPECT_EQ(fill_template("{{#a}}{{#a}}x{{/a}}{{/a}}", {{"a", true}}), "x") << "sections of one name nest";
}

TEST(Template, LeavesOutWhatIsEmpty) {
  const nlohmann::json empty[] = {nullptr, false, 0, "", nlohmann::json::array(), nlohmann::json::object()};
  for (const nlohmann::json& value : empty) {
    EXPECT_EQ(fill_template("{{#a}}x{{/a}}{{^a}}y{{/a}}", {{"a", value}}), "y") << value;
  }
  for (const nlohmann::json& value : {nlohmann::json(true), nlohmann::json(1), nlohmann::json("a")}) {
    EXPECT_EQ(fill_template("{{#a}}x{{/a}}{{^a}}y{{/a}}", {{"a", value}}), "x") << value;
  }
}

TEST(Template, RefusesANameWithoutAValue) {
  EXPECT_THROW(fill_template("{{nmae}}", {{"name", 1}}), InternalError);
  EXPECT_THROW(fill_template("{{#a}}x", {{"a", 1}}), InternalError);
  EXPECT_THROW(fill_template("{{a", {{"a", 1}}), InternalError);
}

TEST(Template, EscapesEveryValue) {
  const std::string hostile = "</script><script>alert('1')</script>\" onload=\"&";
  const std::string html = fill_template("{{a}}{{#l}}{{.}}{{/l}}", {{"a", hostile}, {"l", {hostile}}});
  EXPECT_THAT(html, Not(HasSubstr("<")));
  EXPECT_THAT(html, Not(HasSubstr("\"")));
  EXPECT_THAT(html, Not(HasSubstr("'")));
  EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)"));
  EXPECT_EQ(fill_template("{{a}}", {{"a", "{{b}}"}, {"b", "never"}}), "{{b}}") << "a value is no template";
}

TEST(Template, ReplacesBytesThatAreNoText) {
  EXPECT_EQ(escape_html("a\xFFz\x01"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xC3\xA9\n"), "\xC3\xA9\n");
  EXPECT_EQ(escape_html("\xC3\xFF\xC3"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Template, JsonInAScriptCannotEndIt) {
  const nlohmann::json value = {{"name", "</script><!--\xE2\x80\xA8&"}, {"bad", "a\xFF"}};
  const std::string text = script_json(value);
  for (const char* part : {"<", ">", "&", "\xE2\x80\xA8"}) EXPECT_THAT(text, Not(HasSubstr(part)));
  EXPECT_EQ(nlohmann::json::parse(text)["name"], value["name"]);
}

}  // namespace
}  // namespace plimsoll::report
