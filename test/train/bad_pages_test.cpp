// Tests the decision about a page that cannot be read; bad_page_test.cpp tests whole runs.
#include "train/bad_pages.h"

#include <gtest/gtest.h>

#include "data/loader.h"
#include "support/log_capture.h"

namespace plimsoll {
namespace {

using namespace test;

SkippedPage page_number(std::uint32_t page, bool evaluation = false) {
  return {.evaluation = evaluation,
          .page = page,
          .problem = {.what = "a page's image cannot be decoded", .where = "pages.jsonl:3", .remedy = "look at it"}};
}

TEST(BadPages, OneIsLeftOutAndNamed) {
  const LogCapture log;
  BadPages pages{TrainOptions{}};
  std::vector<SkippedPage> skipped;
  EXPECT_FALSE(pages.judge(page_number(2), 7, skipped).ends);
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(skipped.front().page, 2U);
  EXPECT_TRUE(log.has("pages.jsonl:3")) << log.text();
}

TEST(BadPages, TheFirstEndsARunThatIsToldToStop) {
  TrainOptions options;
  options.stop_on_bad_page = true;
  BadPages pages(options);
  std::vector<SkippedPage> skipped;
  const BadPageVerdict verdict = pages.judge(page_number(2), 7, skipped);
  EXPECT_TRUE(verdict.ends);
  EXPECT_FALSE(verdict.gone);
  EXPECT_TRUE(skipped.empty());
  const Problem problem = bad_page_problem(page_number(2).problem, verdict, 5);
  EXPECT_EQ(problem.what, "a page can no longer be read: a page's image cannot be decoded");
  EXPECT_NE(problem.remedy.find("look at it; repair it, then continue"), std::string::npos);
  EXPECT_NE(problem.remedy.find("from update 5; or pass --on-bad-page skip"), std::string::npos);
}

// It is not the pages' fault, so the run that is resumed tries those in a row again, and no others.
TEST(BadPages, ManyInARowEndTheRunAndAreForgotten) {
  const LogCapture log;
  BadPages pages{TrainOptions{}};
  std::vector<SkippedPage> skipped;
  EXPECT_FALSE(pages.judge(page_number(90), 100, skipped).ends);
  pages.forget_row();
  BadPageVerdict verdict;
  for (std::uint32_t page = 0; !verdict.ends; ++page) verdict = pages.judge(page_number(page), 100, skipped);
  EXPECT_TRUE(verdict.gone);
  EXPECT_FALSE(verdict.none_left);
  EXPECT_EQ(verdict.in_a_row, kMostBadPagesInARow);
  ASSERT_EQ(skipped.size(), 1U);
  EXPECT_EQ(skipped.front().page, 90U);
  EXPECT_EQ(bad_page_problem({.what = "x"}, verdict, 5).what, "20 pages in a row cannot be read: x");
}

TEST(BadPages, TheLastReadablePageOfItsDataSetEndsTheRun) {
  const LogCapture log;
  BadPages pages{TrainOptions{}};
  std::vector<SkippedPage> skipped;
  EXPECT_FALSE(pages.judge(page_number(0), 2, skipped).ends);
  EXPECT_FALSE(pages.judge(page_number(0, true), 2, skipped).ends);  // of the other data set
  const BadPageVerdict verdict = pages.judge(page_number(1), 2, skipped);
  EXPECT_TRUE(verdict.ends && verdict.gone && verdict.none_left);
  EXPECT_EQ(bad_page_problem({.what = "x"}, verdict, 0).what, "no readable page is left: x");
}

}  // namespace
}  // namespace plimsoll
