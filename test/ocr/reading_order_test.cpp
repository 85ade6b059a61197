// The order in which words of a page are read.
#include "ocr/reading_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Words of lines as they stand on a page, ten pixels a letter and line 20 pixels; two spaces or more are a wide gap.
std::string read(const std::vector<std::string>& page, double slope = 0) {
  std::vector<Box> boxes;
  std::vector<std::string> words;
  for (std::size_t line = 0; line < page.size(); ++line) {
    for (std::size_t begin = page[line].find_first_not_of(' '); begin != std::string::npos;) {
      const std::size_t end = std::min(page[line].find(' ', begin), page[line].size());
      const double x = 10.0 * static_cast<double>(begin), y = 20.0 * static_cast<double>(line) + slope * x;
      boxes.push_back({x, y, 10.0 * static_cast<double>(end) + 2, y + 12});
      words.push_back(page[line].substr(begin, end - begin));
      begin = page[line].find_first_not_of(' ', end);
    }
  }
  // The order in which they are given must not matter.
  std::reverse(boxes.begin(), boxes.end());
  std::reverse(words.begin(), words.end());
  std::string text;
  for (const std::size_t word : reading_order(boxes, words)) text += (text.empty() ? "" : " ") + words[word];
  return text;
}

TEST(ReadingOrder, OfNothingIsNothing) { EXPECT_TRUE(reading_order({}, {}).empty()); }

TEST(ReadingOrder, GoesLineByLine) {
  EXPECT_EQ(read({"the first line", "and the second one"}), "the first line and the second one");
  EXPECT_EQ(read({"a line that falls a little on its way", "and another one"}, 0.02),
            "a line that falls a little on its way and another one");
}

TEST(ReadingOrder, BlocksSideBySideAreReadOneAfterTheOther) {
  EXPECT_EQ(read({"Blue Valley Software     Invoice to", "181 River Avenue         Wong Security Systems",
                  "Hayport                  221 Union Drive"}),
            "Blue Valley Software 181 River Avenue Hayport Invoice to Wong Security Systems 221 Union Drive");
}

TEST(ReadingOrder, PricesStayWithTheirNames) {
  EXPECT_EQ(read({"Toner cartridge     RM 437.52", "Spare parts kit     RM 149.90", "Total amount        RM 587.42"}),
            "Toner cartridge RM 437.52 Spare parts kit RM 149.90 Total amount RM 587.42");
  EXPECT_EQ(read({"Door handles     4     10.50     42.00", "Steel brackets   1      7.25      7.25"}),
            "Door handles 4 10.50 42.00 Steel brackets 1 7.25 7.25");
}

// Whether a strip parts blocks is a vote of the lines across it, so the table has more lines than the blocks.
TEST(ReadingOrder, ATableBelowBlocksIsReadByLines) {
  std::vector<std::string> page = {"Blue Valley Software     Wong Security Systems",
                                   "181 River Avenue         221 Union Drive", ""};
  std::string wanted = "Blue Valley Software 181 River Avenue Wong Security Systems 221 Union Drive";
  for (int line = 0; line < 8; ++line) {
    page.emplace_back("Door handles     4     10.50     42.00");
    wanted += " Door handles 4 10.50 42.00";
  }
  EXPECT_EQ(read(page), wanted);
}

}  // namespace
}  // namespace plimsoll
