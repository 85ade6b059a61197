// Words as they are read, from their letters as they stand on the page.
#include "ocr/visual_order.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(VisualOrder, WordsThatRunFromLeftToRightStay) {
  for (const char* word : {"Total", "12.50", "(A-4)", "", "\xC3\xA9t\xC3\xA9", "\xFF\xFE"}) {
    EXPECT_EQ(reading_order_of(word), word);
  }
}

TEST(VisualOrder, HebrewAndArabicAreReadFromTheRight) {
  EXPECT_EQ(reading_order_of("םולש"), "שלום");
  EXPECT_EQ(reading_order_of("ابحرم"), "مرحبا");
  EXPECT_EQ(reading_order_of("(םולש)"), "(שלום)") << "brackets are mirrored";
  EXPECT_EQ(reading_order_of("םוָלש"), "שלוָם") << "a mark stays behind its letter";
}

// Numbers and Latin letters run from left to right within them.
TEST(VisualOrder, NumbersInThemStay) {
  EXPECT_EQ(reading_order_of("12.50-םולש"), "שלום-12.50");
  EXPECT_EQ(reading_order_of("A-4:םולש"), "שלום:A-4");
  EXPECT_EQ(reading_order_of("٤٢ابحرم"), "مرحبا٤٢");
}

}  // namespace
}  // namespace plimsoll
