// Tests that the compiler keeps what the sources say, where one is known to have not.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace plimsoll::test {
namespace {

// Tests are compiled without the optimisations that library code has.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

// Widens the numbers in the upper half of `values` (formats/weights.cpp). GCC 12 keeps the address of its store in one
// register; without the options of cmake/PlimsollTargets.cmake it removes the calls of this function.
[[gnu::noinline]] void widen_in_place(std::span<float> values) {
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const std::size_t n = values.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t narrow = 0;
    std::memcpy(&narrow, bytes + 2 * n + 2 * i, sizeof narrow);
    float wide = std::bit_cast<float>(std::uint32_t{narrow} << 16);
    if ((narrow & 1) != 0) wide = -wide;
    std::memcpy(bytes + 4 * i, &wide, sizeof wide);
  }
}
[[gnu::noinline]] std::vector<float> widened(std::vector<float> values) {
  widen_in_place(values);
  return values;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

TEST(Compiler, KeepsStoresWhoseAddressIsInOneRegister) {
  std::vector<float> expected(64);  // the lower and the upper half of 3.0F, in turn
  for (std::size_t i = 1; i < expected.size(); i += 2) expected[i] = 3;
  EXPECT_EQ(widened(std::vector<float>(64, 3)), expected);
}

}  // namespace
}  // namespace plimsoll::test
