#include "base/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace plimsoll {
namespace {

TEST(Counted, OneIsSingularAllElseIsPlural) {
  EXPECT_EQ(counted(1, "page"), "1 page");
  EXPECT_EQ(counted(0, "page"), "0 pages");
  EXPECT_EQ(counted(std::size_t{2}, "page"), "2 pages");
  EXPECT_EQ(counted(std::uint64_t{1}, "gradient update"), "1 gradient update");
  EXPECT_EQ(counted(std::int64_t{-1}, "page"), "-1 pages");
}

TEST(Counted, ThePluralFollowsFromTheEnding) {
  EXPECT_EQ(plural_of("box"), "boxes");
  EXPECT_EQ(plural_of("micro-batch"), "micro-batches");
  EXPECT_EQ(plural_of("process"), "processes");
  EXPECT_EQ(plural_of("entry"), "entries");
  EXPECT_EQ(plural_of("key"), "keys");
  EXPECT_EQ(plural_of("adapter"), "adapters");
}

TEST(Counted, TheNounAloneGoesWithANumberWrittenOtherwise) {
  EXPECT_EQ(noun_for(1, "byte"), "byte");
  EXPECT_EQ(noun_for(1'000'000, "byte"), "bytes");
}

TEST(Counted, AVerbChangesWithItsNoun) {
  EXPECT_EQ(counted(1, "page is", "pages are"), "1 page is");
  EXPECT_EQ(counted(3, "page is", "pages are"), "3 pages are");
}

}  // namespace
}  // namespace plimsoll
