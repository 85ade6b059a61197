#include "train/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll {
namespace {

// Pages of one kind of mistake each: the interval is that of a share.
PagesRead pages_with(std::size_t right, std::size_t wrong) {
  PagesRead read;
  for (std::size_t i = 0; i < right + wrong; ++i) {
    read.first.push_back({i < right ? 1.0 : 0.0, 1.0});
    read.found.push_back({i < right ? 1U : 2U});
  }
  return read;
}

// 400 pages, 300 of them right: 0.75 +- 1.96 sqrt(0.75 0.25 / 400) = 0.75 +- 0.042.
TEST(Comparison, AnIntervalIsThatOfTheBinomialDistribution) {
  const ConfidenceInterval found = interval(pages_with(300, 100));
  EXPECT_NEAR(found.low, 0.75 - 0.042, 0.006);
  EXPECT_NEAR(found.high, 0.75 + 0.042, 0.006);
}

// The same 10 pages of 400 differ: paired, the difference is surer than either score.
TEST(Comparison, ADifferenceIsDrawnOnTheSamePages) {
  const PagesRead a = pages_with(300, 100), b = pages_with(310, 90);
  const ConfidenceInterval by = difference(a, b);
  EXPECT_NEAR(by.low, 0.025 - 0.0153, 0.004);
  EXPECT_NEAR(by.high, 0.025 + 0.0153, 0.004);
  EXPECT_EQ(*agreement(a, b), 1 - 10.0 / 400);
}

TEST(Comparison, PagesCountByWhatIsOnThem) {
  PagesRead read;
  read.first = {{0, 0}, {0, 0}};  // nothing to find, nothing found
  EXPECT_EQ(interval(read).high, 0);
  read.first = {{2, 4}, {2, 4}};
  EXPECT_EQ(interval(read).low, 0.5);
  EXPECT_EQ(interval(read).high, 0.5);
}

// The interval of a perplexity is one of perplexities, not of the mean losses that it is made of.
TEST(Comparison, AnExponentIsDrawnAsWhatIsPrinted) {
  PagesRead read;
  read.scores.is_exponent = true;
  read.first = {{8, 2}, {12, 3}, {4, 1}};
  EXPECT_NEAR(interval(read).low, std::exp(4), 1e-9);
  EXPECT_NEAR(interval(read).high, std::exp(4), 1e-9);
  PagesRead worse = read;
  for (Scores::Quotient& page : worse.first) page.above += page.below;
  EXPECT_NEAR(difference(read, worse).low, std::exp(5) - std::exp(4), 1e-9);
}

TEST(Comparison, LinksAgreeAsSetsAndNumbersNever) {
  PagesRead a, b;
  a.form = b.form = PagesRead::Form::kSet;
  a.found = {{1, 2}, {}};
  b.found = {{2, 3, 1}, {}};
  EXPECT_DOUBLE_EQ(*agreement(a, b), 2.0 / 3);
  a.form = b.form = PagesRead::Form::kNumbers;
  EXPECT_FALSE(agreement(a, b).has_value());
}

}  // namespace
}  // namespace plimsoll
