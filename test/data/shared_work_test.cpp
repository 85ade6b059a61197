// Work that ranks share, here threads.
#include "data/shared_work.h"

#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "data/packed_report.h"

namespace plimsoll {
namespace {

// Gives each of several threads a share, and runs `work` on all of them.
template <typename Work>
void on_ranks(std::size_t ranks, const Work& work) {
  std::vector<std::string> texts(ranks);
  std::barrier<> all(static_cast<std::ptrdiff_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      work(PageShare{.rank = rank, .ranks = ranks, .exchange = [&, rank](const std::string& mine) {
                       texts[rank] = mine;
                       all.arrive_and_wait();
                       std::vector<std::string> gathered = texts;
                       all.arrive_and_wait();
                       return gathered;
                     }});
    });
  }
}

TEST(SharedWork, EveryRankTakesAllResultsInOrder) {
  for (const std::size_t count : {0U, 1U, 2U, 63U, 64U, 65U, 300U}) {
    for (const std::size_t ranks : {1U, 2U, 3U}) {
      on_ranks(ranks, [&](const PageShare& share) {
        std::size_t next = 0;
        run_shared<std::size_t>(
            share, count, share.is_first() ? 1 : 3,
            [&](std::size_t i) {
              EXPECT_TRUE(share.has(i));
              return i * i;
            },
            [](std::size_t result) { return std::to_string(result); },
            [](std::string_view text) { return static_cast<std::size_t>(std::stoul(std::string(text))); },
            [&](std::size_t result) {
              EXPECT_EQ(result, next * next);
              ++next;
            });
        EXPECT_EQ(next, count) << "on rank " << share.rank << " of " << ranks;
      });
    }
  }
}

TEST(SharedWork, AReportSurvivesItsJourney) {
  BlockReport report(3);
  const std::string no_utf8 = "\xFF\xFE";
  for (int i = 0; i < 5; ++i) {
    report.findings.add(Severity::kWarning, "box-inverted",
                        {.what = "a box is inverted", .where = "page " + std::to_string(i), .found = no_utf8});
  }
  report.findings.add(Severity::kError, "bad-json", {.what = "no JSON", .where = "b", .allowed = "c", .remedy = "d"});
  report.word_level.add(Severity::kInfo, "word-boxes", {.what = "words"});
  report.inside_first.add(Severity::kWarning, "tag-order", {.what = "tags"});
  report.counts.pages = 16;
  report.counts.targets = 7;
  report.pages = {{.index = 1, .id = 2, .content = 3}, {.index = 4, .id = 5, .content = 6}};
  report.bad_pages = {{.page = 9, .problem = {.what = "bad", .where = no_utf8}}};
  report.labels = {{"O", 5}, {no_utf8, 1}};
  report.boxes.right = 0.1;
  const BlockReport same = unpack_report(pack_report(report), 3);
  EXPECT_EQ(same.findings.to_text(), report.findings.to_text());
  EXPECT_EQ(same.findings.count(Severity::kWarning), 5U);
  EXPECT_EQ(same.word_level.to_text(), report.word_level.to_text());
  EXPECT_EQ(same.inside_first.to_text(), report.inside_first.to_text());
  EXPECT_EQ(same.counts.pages, 16U);
  EXPECT_EQ(same.counts.targets, 7U);
  ASSERT_EQ(same.pages.size(), 2U);
  EXPECT_EQ(same.pages[1].content, 6U);
  ASSERT_EQ(same.bad_pages.size(), 1U);
  EXPECT_EQ(same.bad_pages[0].page, 9U);
  EXPECT_EQ(same.bad_pages[0].problem.where, no_utf8);
  EXPECT_EQ(same.labels, report.labels);
  EXPECT_EQ(same.boxes.right, 0.1);
}

}  // namespace
}  // namespace plimsoll
