#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(ParseBytes, TakesWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("3GiB", "--budget"), 3 * kGiB);
  EXPECT_EQ(parse_bytes("3 GB", "--budget"), 3'000'000'000U);
  EXPECT_EQ(parse_bytes("100MB", "--budget"), 100'000'000U);
  EXPECT_EQ(parse_bytes("1TB", "--budget"), 1'000'000'000'000U);
  EXPECT_EQ(parse_bytes("2 KiB", "--budget"), 2048U);
  EXPECT_EQ(parse_bytes("512m", "--budget"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1.5g", "--budget"), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("1073741824", "--budget"), kGiB);
  EXPECT_EQ(parse_bytes("1000b", "--budget"), 1000U);
  EXPECT_EQ(parse_bytes("1000.9b", "--budget"), 1000U) << "a budget is never more than what was written";
}

TEST(ParseBytes, RefusesTheRestNamingTheOption) {
  for (const char* text : {"", "-1GiB", "0", "0.5b", "3 apples", "nan", "1e30g"}) {
    try {
      parse_bytes(text, "--budget");
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.problem().where, "--budget");
    }
  }
}

TEST(ParseBytes, ANumberWithoutItsUnitIsNoBytes) {
  // The remedy names the unit that was probably meant: no GPU has 200 GiB.
  for (const auto& [text, remedy] : {std::pair{"4", "did you mean 4GiB?"},
                                     {"80", "did you mean 80GiB?"},
                                     {"200", "did you mean 200MiB?"},
                                     {"1500", "did you mean 1500MiB?"}}) {
    try {
      parse_bytes(text, "--budget");
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_EQ(error.problem().remedy, remedy);
    }
  }
}

TEST(FormatBytes, ReadsWell) {
  EXPECT_EQ(format_bytes(640), "640 B");
  EXPECT_EQ(format_bytes(3 * kGiB), "3.00 GiB");
  EXPECT_EQ(format_bytes(kMiB * 25 / 2), "12.5 MiB");
  EXPECT_EQ(format_bytes(900 * kMiB), "900 MiB");
}

}  // namespace
}  // namespace plimsoll
