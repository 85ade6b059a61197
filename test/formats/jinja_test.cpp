// Chat templates, against what transformers makes of them (tools/make_jinja_golden.py).
#include "formats/jinja.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "harness/paths.h"
#include "support/expect_error.h"

namespace plimsoll::test {
namespace {

using nlohmann::ordered_json;

TEST(Jinja, ChatTemplatesGiveWhatTheyGiveInTransformers) {
  const ordered_json golden = ordered_json::parse(read_text_file(test_data_dir() / "jinja.json"));
  std::size_t cases = 0;
  for (const ordered_json& each : golden.at("cases")) {
    const auto name = each.at("name").get<std::string>();
    const JinjaTemplate chat(golden.at("templates").at(name).get<std::string>(), name);
    EXPECT_EQ(chat.render(each.at("values")).text, each.at("expected").get<std::string>()) << name;
    ++cases;
  }
  EXPECT_GT(cases, 20U);
}

// Jinja2 changes the case of all letters; only that of ASCII is known here, and texts without other cased letters may
// have any characters.
TEST(Jinja, TheCaseOfOtherLettersIsRefused) {
  const JinjaTemplate upper("{{ a|upper }}", "here");
  EXPECT_EQ(upper.render({{"a", "12.50 €, 中文 ×"}}).text, "12.50 €, 中文 ×");
  for (const char* text : {"é", "straße", "Ж", "ﬁ", "ⅎ", "𐐨", "µ"}) {
    expect_error<DataError>([&] { upper.render({{"a", text}}); }, {"ASCII", text});
  }
  expect_error<DataError>([] { JinjaTemplate("{{ '%s' % 'a' }}", "here").render({}); },
                          {"texts are not formatted by %"});
  // A long text is cut between characters.
  const std::string whole = std::string(39, 'a') + "é";
  expect_error<DataError>([&] { upper.render({{"a", whole}}); }, {std::string(39, 'a') + "…"});
}

// As Jinja2 and Python do.
TEST(Jinja, RareFormsOfCommonCalls) {
  const auto rendered = [](const std::string& expression) {
    return JinjaTemplate("{{ " + expression + " }}", "here").render(ordered_json::object()).text;
  };
  EXPECT_EQ(rendered("'Be  good. '.split(None, 1)"), "['Be', 'good. ']");
  EXPECT_EQ(rendered("' a b  '.split()"), "['a', 'b']");
  EXPECT_EQ(rendered("\"it's o'neil-x (one\"|title"), "It's O'neil-X (One");
  EXPECT_EQ(rendered("\"o'neil\".title()"), "O'Neil");
  EXPECT_EQ(rendered("true is number"), "True");
  EXPECT_EQ(rendered("'0x1f'|int"), "0");
  EXPECT_EQ(JinjaTemplate("{% for i in [5, 6] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "here").render({}).text,
            "1010");
  expect_error<DataError>([&] { rendered("'ab'.replace('', '-')"); }, {"replaced"});
  expect_error<DataError>([&] { rendered("'ab'.index('c')"); }, {"no such part", "c"});
  expect_error<DataError>([&] { rendered("'\\ud800'"); }, {"escape", "ud800"});
  expect_error<DataError>([&] { rendered("'\\x4'"); }, {"escape", "x4"});
  expect_error<DataError>([&] { rendered("9 ** 99"); }, {"too large"});
  expect_error<DataError>([&] { rendered("[1, 'a']|sort"); }, {"number is needed"});
}

// As transformers marks what an assistant says; what a macro or a set block makes is a text of its own, without marks.
TEST(Jinja, MarksAreThePlacesOfWhatIsGenerated) {
  const auto marks = [](const char* source) {
    const JinjaText made = JinjaTemplate(source, "here").render({{"items", {"é", "b"}}});
    std::vector<std::string> texts;
    for (const auto& [begin, end] : made.generations) texts.push_back(made.text.substr(begin, end - begin));
    return texts;
  };
  EXPECT_EQ(marks("x{% for i in items %}<{% generation %}{{ i }}!{% endgeneration %}>{% endfor %}"),
            (std::vector<std::string>{"é!", "b!"}));
  EXPECT_EQ(marks("{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}"),
            std::vector<std::string>{"ab"});
  EXPECT_EQ(marks("{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ m() }}"),
            std::vector<std::string>{});
}

// As Jinja2 does.
TEST(Jinja, FiltersFollowPathsOfMembers) {
  const ordered_json values = {{"a",
                                {{{"b", {{"c", 5}}}, {"d", ordered_json::array({7, 8})}},
                                 {{"b", {{"c", 0}}}, {"d", ordered_json::array({1, 2})}}}}};
  EXPECT_EQ(JinjaTemplate("{{ a|map(attribute='b.c')|list }} {{ a|selectattr('b.c')|list|length }} "
                          "{{ a|map(attribute='d.1')|list }}",
                          "here.json")
                .render(values)
                .text,
            "[5, 0] 1 [8, 2]");
}

void expect_refused(std::string_view text, std::initializer_list<std::string_view> parts,
                    const ordered_json& values = ordered_json::object()) {
  expect_error<DataError>([&] { JinjaTemplate(text, "here.json").render(values); }, parts);
}

TEST(Jinja, WhatIsNotUnderstoodIsNamedWithItsLine) {
  expect_refused("a\n{% include 'x' %}", {"here.json, line 2", "include"});
  expect_refused("{{ x|nothing }}", {"filter", "nothing"}, {{"x", 1}});
  expect_refused("{{ x is nothing }}", {"test", "nothing"}, {{"x", 1}});
  expect_refused("{{ x.nothing() }}", {"method", "nothing"}, {{"x", "a"}});
  expect_refused("{{ nothing() }}", {"function", "nothing"});
  expect_refused("{% for a in b %}", {"endfor"});
  expect_refused("{% endfor %}", {"endfor"});
  expect_refused("{{ 'a }}", {"string"});
  expect_refused("{{ a", {"does not end"});
  expect_refused("{{ }}", {"expression"});
  expect_refused("{{ a ? b }}", {"?"});
  expect_refused("{# a", {"comment"});
  expect_refused("{{ x.y.z }}", {"z"}, {{"x", ordered_json::object()}});
  expect_refused("{{ raise_exception('no tools here') }}", {"no tools here"});
  expect_refused("{{ 1 / 0 }}", {"0"});
  expect_refused("{{ a[] }}", {"subscript"}, {{"a", "b"}});
  expect_refused("{{ a[1:2:3:4] }}", {"slice"}, {{"a", "b"}});
  expect_refused("{{ a + 1 }}", {"text"}, {{"a", "b"}});
  expect_refused("{{ a[1.5] }}", {"whole number"}, {{"a", {1, 2}}});
  expect_refused("{{ range(10000000000000000000) }}", {"too large"});
  expect_refused("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}", {"nested"});
  expect_refused("{{ a.replace('x', 'y', 1, 2) }}", {"replace"}, {{"a", "b"}});
  expect_refused("{{ a|join(', ', by='x') }}", {"join, by"}, {{"a", {1, 2}}});
  expect_refused("{{ a|tojson(true, 1, none, true, 5) }}", {"tojson"}, {{"a", 1}});
  expect_refused("{{ a|tojson(separators=';') }}", {"two separators"}, {{"a", 1}});
  expect_refused("{{ a|map }}", {"map"}, {{"a", {1}}});
  expect_refused("{{ a|sort(attribute='x,y') }}", {"x,y"}, {{"a", {1, 2}}});
  expect_refused("{% macro m() %}{{ m()" +
                     []() {
                       std::string sum;
                       for (int i = 0; i < 900; ++i) sum += "+1";
                       return sum;
                     }() +
                     " }}{% endmacro %}{{ m() }}",
                 {"without end"});
  expect_refused("{% set n = namespace(x=1) %}{% for i in range(200) %}{% set n.x = [n.x] %}{% endfor %}", {"nested"});
  expect_refused("{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}",
                 {"larger"});
  expect_refused("{{ ('a' * 16000000)|length }}", {"longer"});
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {"without end"});
  expect_refused("{% for a in range(9000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}", {"more work"});
  expect_refused("{{ 'aaaaaaaaaa' * 1000000000 }}", {"more text"});
  expect_refused("{% set n = namespace(t='ab', l=[1]) %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
                 {"than any chat"});
  expect_refused("{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}",
                 {"than any chat"});
}

}  // namespace
}  // namespace plimsoll::test
