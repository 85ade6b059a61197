#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace plimsoll {
namespace {

TEST(Hash, ShowsEveryChangedBitAndLength) {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 63U, 64U, 65U, 200U}) {
    std::vector<std::byte> bytes(size);
    std::set<std::uint64_t> seen{hash_bytes(bytes)};
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_TRUE(seen.insert(hash_bytes(bytes)).second) << "bit " << bit << " of " << size << " bytes";
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
  }
  std::set<std::uint64_t> zeros;
  for (std::size_t size = 0; size < 300; ++size) zeros.insert(hash_bytes(std::vector<std::byte>(size)));
  EXPECT_EQ(zeros.size(), 300U);
}

TEST(Hash, DependsOnItsSeed) {
  const std::vector<std::byte> bytes(20);
  EXPECT_NE(hash_bytes(bytes, 1), hash_bytes(bytes, 2));
}

}  // namespace
}  // namespace plimsoll
