#include "data/packed.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(Packed, NumbersAndTextsComeBackInTheirOrder) {
  const std::vector<std::uint64_t> counts = {0, 1, 127, 128, 300, 1U << 21, ~std::uint64_t{0}};
  const std::vector<std::int64_t> numbers = {0,
                                             -1,
                                             1,
                                             63,
                                             -64,
                                             64,
                                             100'000,
                                             std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max()};
  const std::vector<double> reals = {0.0, -0.0, 0.1, -1e300, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<std::string> texts = {"", "TOTAL", std::string("a\0b", 3), std::string(1000, 'x')};
  Packer packer;
  for (const std::uint64_t value : counts) packer.count(value);
  for (const std::int64_t value : numbers) packer.number(value);
  for (const double value : reals) packer.real(value);
  for (const std::string& text : texts) packer.text(text);

  Unpacker unpacker(packer.bytes());
  for (const std::uint64_t value : counts) EXPECT_EQ(unpacker.count(), value);
  for (const std::int64_t value : numbers) EXPECT_EQ(unpacker.number(), value);
  for (const double value : reals) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(unpacker.real()), std::bit_cast<std::uint64_t>(value));
  }
  for (const std::string& text : texts) EXPECT_EQ(unpacker.text(), text);
  EXPECT_TRUE(unpacker.at_end());
}

TEST(Packed, SmallNumbersTakeAByte) {
  Packer packer;
  packer.count(127);
  packer.number(-64);
  EXPECT_EQ(packer.bytes().size(), 2U);
}

// However the bytes are cut, an error says so.
TEST(Packed, BytesThatEndTooEarlyAreRefused) {
  Packer packer;
  packer.count(1U << 20);
  packer.text("word");
  packer.real(1.5);
  for (std::size_t length = 0; length < packer.bytes().size(); ++length) {
    Unpacker unpacker(packer.bytes().first(length));
    EXPECT_THROW(
        {
          unpacker.count();
          unpacker.text();
          unpacker.real();
        },
        Error)
        << length;
  }
  Unpacker unpacker(packer.bytes());
  EXPECT_THROW(unpacker.size(), Error) << "a million values in a few bytes";
}

}  // namespace
}  // namespace plimsoll
