#include "draw/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace plimsoll::draw {
namespace {

TEST(Facts, AmountsAgreeOnEveryPage) {
  for (std::uint64_t page = 0; page < 2000; ++page) {
    SCOPED_TRACE(page);
    const PageFacts facts = make_facts(11, page);
    ASSERT_FALSE(facts.lines.empty());
    Cents sum = 0;
    for (const SaleLine& line : facts.lines) {
      EXPECT_GT(line.amount, 0);
      EXPECT_EQ(line.amount, line.quantity * line.unit);
      sum += line.amount;
    }
    EXPECT_EQ(facts.subtotal, sum);
    EXPECT_EQ(facts.total,
              facts.subtotal - facts.discount + facts.service + (facts.tax_included ? 0 : facts.tax) + facts.rounding);
    EXPECT_EQ(facts.paid, facts.total + facts.change);
    EXPECT_GE(facts.change, 0);
    EXPECT_LE(std::abs(facts.rounding), 2);
  }
}

TEST(Facts, TaxIsItsShareUpToHalfACent) {
  for (std::uint64_t page = 0; page < 500; ++page) {
    SCOPED_TRACE(page);
    const PageFacts facts = make_facts(12, page);
    const double rate = facts.tax_rate_hundredths / 10000.0;
    const auto taxed = static_cast<double>(facts.subtotal - facts.discount + facts.service);
    const double exact = facts.tax_included ? taxed - taxed / (1 + rate) : taxed * rate;
    EXPECT_NEAR(static_cast<double>(facts.tax), exact, 0.5 + 1e-6);
  }
}

TEST(Facts, TheDayIsNoneOfTheDecoys) {
  for (std::uint64_t page = 0; page < 500; ++page) {
    const PageFacts facts = make_facts(13, page);
    EXPECT_NE(facts.date, facts.later_date);
    EXPECT_NE(facts.date, facts.earlier_date);
  }
}

TEST(Facts, NamesRarelyRepeat) {
  std::set<std::string> companies, addresses;
  std::set<PageKind> kinds;
  std::set<Region> regions;
  constexpr std::uint64_t kPages = 1000;
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const PageFacts facts = make_facts(14, page);
    companies.insert(facts.company_lines.front());
    addresses.insert(facts.address_lines.front());
    kinds.insert(facts.kind);
    regions.insert(facts.region);
  }
  EXPECT_GT(companies.size(), kPages * 95 / 100);
  EXPECT_GT(addresses.size(), kPages * 95 / 100);
  EXPECT_EQ(kinds.size(), 7U);
  EXPECT_EQ(regions.size(), 5U);
}

TEST(Facts, AmountsAreWrittenInTheirStyle) {
  EXPECT_EQ(format_amount(123456789, {}), "1,234,567.89");
  EXPECT_EQ(format_amount(123450, {.group_thousands = false}), "1234.50");
  EXPECT_EQ(format_amount(123405, {.comma_decimal = true}), "1.234,05");
  EXPECT_EQ(format_amount(-2, {}), "-0.02");
  EXPECT_EQ(format_amount(0, {}), "0.00");
  EXPECT_EQ(format_amount(99999, {}), "999.99");
  EXPECT_EQ(format_rate(600), "6%");
  EXPECT_EQ(format_rate(625), "6.25%");
  EXPECT_EQ(format_rate(805), "8.05%");
}

}  // namespace
}  // namespace plimsoll::draw
