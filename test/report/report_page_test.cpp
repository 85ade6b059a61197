// The page: whole and harmless whatever the run's files say, and small enough.
#include "report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "report/read_run.h"
#include "run_files.h"

namespace plimsoll::report {
namespace {

using test::ScratchFolder;
using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

RunFacts whole_run() {
  const ScratchFolder folder;
  test::write_run(folder, "run");
  return read_run(folder / "run");
}

// The parts that every page has, and a browser needs to read it.
void expect_page(const std::string& page) {
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_EQ(count(page, "<script"), 2U);
  EXPECT_EQ(count(page, "</script>"), 2U);
  EXPECT_EQ(count(page, "{{"), 0U);
  for (const char* tag : {"section", "table", "figure", "details", "div", "tr", "dl"}) {
    const auto opened = count(page, std::string("<") + tag + ">") + count(page, std::string("<") + tag + " ");
    EXPECT_EQ(opened, count(page, std::string("</") + tag + ">")) << tag;
  }
  // Nothing is loaded from anywhere: the only addresses are pictures in the page and its own sections.
  const std::regex address(R"re((?:src|href)="([^"]*)")re");
  for (std::sregex_iterator at(page.begin(), page.end(), address), end; at != end; ++at) {
    const std::string to = (*at)[1];
    EXPECT_TRUE(to.starts_with("#") || to.starts_with("data:image/")) << to;
  }
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
}

TEST(ReportPage, ShowsEveryPartOfARun) {
  const std::string page = report_page({whole_run()});
  expect_page(page);
  for (const char* part :
       {"id=\"memory\"", "id=\"learning\"", "id=\"speed\"", "id=\"labels\"", "id=\"pages\"", "id=\"data\"",
        "data-map=\"0\"", "data-chart=\"memory\"", "data-chart=\"loss\"", "data-chart=\"metrics\"",
        "data-chart=\"rate\"", "data-chart=\"norm\"", "data-chart=\"speed\"", "data-chart=\"wait\"",
        "a box lies outside the page", "dense.grad"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, HasSubstr("measured 3.96 KiB"));
  EXPECT_THAT(page, HasSubstr("1 right, 1 wrong, 1 missed"));
  EXPECT_THAT(page, Not(HasSubstr("has no summary")));
}

TEST(ReportPage, OfARunThatWasResumedTheTimeIsOfItsLastUpdates) {
  RunFacts run = whole_run();
  EXPECT_THAT(report_page({run}), Not(HasSubstr("of the last")));
  run.summary["steps_here"] = 8;  // of 20
  EXPECT_THAT(report_page({run}), HasSubstr("measured, of the last 8 updates"));
  run.summary["steps_here"] = 20;
  EXPECT_THAT(report_page({run}), Not(HasSubstr("of the last")));
}

TEST(ReportPage, HasATableBehindEachChart) {
  const std::string page = report_page({whole_run()});
  const std::regex figure(R"re(<figure class="(chart|map)"[\s\S]*?</figure>)re");
  int figures = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), figure), end; at != end; ++at, ++figures) {
    EXPECT_THAT(at->str(), HasSubstr("<table>"));
    EXPECT_THAT(at->str(), HasSubstr("<th scope=\"col\">"));
  }
  EXPECT_EQ(figures, 8);
}

// Whatever a stranger writes into a page's id, a label, a word or a path: it is text.
TEST(ReportPage, NothingThatARunSaysBecomesMarkup) {
  const std::string hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"";
  RunFacts run = whole_run();
  run.name = hostile;
  run.version = hostile;
  run.options["model"] = hostile;
  run.options[hostile] = hostile;
  run.notes.push_back(hostile);
  for (auto* tensors : {&run.arena->persistent, &run.arena->programs[0].tensors}) {
    for (Tensor& tensor : *tensors) tensor.name = tensor.kind = tensor.lever = hostile;
  }
  for (ArenaNode& node : run.arena->programs[0].nodes) node.name = node.op = node.phase = hostile;
  run.arena->programs[0].kind = hostile;
  run.evaluations[0].metrics[0].name = hostile;
  run.evaluations[0].labels[0].name = hostile;
  run.evaluations[0].confusion_names[0] = hostile;
  FoundFault& fault = run.findings[0];
  fault.what = fault.kind = fault.severity = fault.allowed = fault.remedy = hostile;
  fault.places = {hostile};
  for (WorstPage& page : run.worst) {
    page.id = page.where = page.caption = hostile;
    page.image = hostile;
    for (WorstWord& word : page.words) {
      word.text = word.label = hostile;
      word.given = hostile;
    }
  }
  run.plan["items"][0]["name"] = hostile;
  run.plan["update_mode"] = hostile;
  for (const std::string& page : {report_page({run}), report_page({run, whole_run()})}) {
    expect_page(page);
    EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
    EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e"));
  }
}

TEST(ReportPage, SaysWhatARunLacks) {
  RunFacts empty{.name = "empty"};
  expect_page(report_page({empty}));
  RunFacts one{.name = "one"};
  one.steps.push_back({.step = 1, .loss = 2});
  const std::string page = report_page({one});
  expect_page(page);
  EXPECT_THAT(page, HasSubstr("has no summary"));
  EXPECT_THAT(page, HasSubstr("data-chart=\"loss\""));
  EXPECT_THAT(page, Not(HasSubstr("data-chart=\"metrics\"")));
  EXPECT_THAT(page, Not(HasSubstr("id=\"labels\"")));

  RunFacts gone = whole_run();
  gone.worst[0].image = "/nowhere/page.png";
  EXPECT_THAT(report_page({gone}), HasSubstr("The picture cannot be shown"));
}

TEST(ReportPage, ShowsRunsSideBySide) {
  RunFacts first = whole_run(), second = whole_run();
  first.directory = "a/run";
  second.directory = "b/run";
  second.options["learning_rate"] = 0.25;
  const std::string page = report_page({first, second});
  expect_page(page);
  EXPECT_THAT(page, HasSubstr("a/run and b/run side by side"));
  EXPECT_THAT(page, HasSubstr("<code>learning_rate</code></th><td>0.001</td><td>0.25</td>"));
  EXPECT_EQ(count(page, "data-map="), 2U);
  EXPECT_EQ(count(page, "data-chart=\"loss\""), 1U) << "one chart has both";
}

TEST(ReportPage, IsSmallWhateverTheRun) {
  RunFacts run = whole_run();
  for (int i = 0; i < 60'000; ++i) {
    Tensor tensor = run.arena->programs[0].tensors[1];
    tensor.name = std::string(200, 'n') + std::to_string(i);
    run.arena->programs[0].tensors.push_back(tensor);
    run.arena->persistent.push_back(tensor);
  }
  for (int i = 0; i < 300; ++i) {
    run.findings.push_back(
        {.severity = "warning", .what = std::string(10'000, 'w'), .places = {std::string(9'000, 'p')}});
  }
  run.findings.push_back({.severity = "info", .what = std::string(70'000, 'i')});
  for (int i = 0; i < 12; ++i) {
    WorstPage page = run.worst[0];
    page.words.assign(5'000, {.text = std::string(500, 't'), .label = "B-A", .given = "B-C"});
    run.worst.push_back(page);
  }
  for (int i = 0; i < 3'000; ++i) run.options[std::string(100, 'o') + std::to_string(i)] = std::string(5'000, 'v');
  const std::string page = report_page({run, run, run, run});
  expect_page(page);
  EXPECT_LE(page.size(), kMostReportBytes);
  EXPECT_THAT(page, HasSubstr("The smallest are left out"));
}

}  // namespace
}  // namespace plimsoll::report
