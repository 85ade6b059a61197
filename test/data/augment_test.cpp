#include "data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace plimsoll {
namespace {

constexpr int kSide = 200, kWide = Augmentation::kOversampling * kSide;

std::vector<std::uint8_t> picture_of(const Augmentation& augmentation, const std::vector<std::uint8_t>& source) {
  std::vector<std::uint8_t> buffer, out(std::size_t{3} * kSide * kSide);
  augmentation.apply(source, kSide, kSide, buffer, out);
  return out;
}

// A light page with a dark patch that fills `box`.
std::vector<std::uint8_t> page_with(const Box1000& box) {
  std::vector<std::uint8_t> page(std::size_t{3} * kWide * kWide, 230);
  for (int y = box[1] * kWide / 1000; y < box[3] * kWide / 1000; ++y) {
    for (int x = box[0] * kWide / 1000; x < box[2] * kWide / 1000; ++x) {
      std::fill_n(page.begin() + 3 * (y * kWide + x), 3, std::uint8_t{20});
    }
  }
  return page;
}

TEST(Augmentation, ChangesNothingByItself) {
  std::mt19937 random(3);
  std::vector<std::uint8_t> source(std::size_t{3} * kWide * kWide);
  for (auto& byte : source) byte = static_cast<std::uint8_t>(random());
  const auto out = picture_of(Augmentation(), source);
  for (std::size_t y = 0; y < kSide; ++y) {
    for (std::size_t i = 0; i < std::size_t{3} * kSide; ++i) {
      const std::size_t at = 2 * y * 3 * kWide + i / 3 * 6 + i % 3;
      const int sum = source[at] + source[at + 3] + source[at + 3 * kWide] + source[at + 3 * kWide + 3];
      ASSERT_EQ(out[y * 3 * kSide + i], (sum + 2) / 4);
    }
  }
  EXPECT_EQ(Augmentation().move({1, 2, 3, 4}), (Box1000{1, 2, 3, 4}));
}

// The content of a box is in the moved box, and fills it except for the margin that turning adds.
TEST(Augmentation, ContentStaysInItsBox) {
  std::mt19937 random(11);
  int moved_far = 0;
  for (std::uint32_t page = 0; page < 60; ++page) {
    Box1000 box{};
    for (std::size_t i = 0; i < 2; ++i) {
      box[i] = 100 + 5 * static_cast<int>(random() % 120);
      box[i + 2] = box[i] + 50 + 5 * static_cast<int>(random() % 20);
    }
    const double aspect = 0.4 + 0.02 * page;
    const auto augmentation = Augmentation::draw({.seed = 1, .epoch = page % 3, .page = page}, aspect, 1);
    ASSERT_TRUE(augmentation.keeps(box));
    const Box1000 moved = augmentation.move(box);
    const auto out = picture_of(augmentation, page_with(box));
    const auto [darkest, lightest] = std::minmax_element(out.begin(), out.end());
    const int middle = (*darkest + *lightest) / 2;
    int left = kSide, top = kSide, right = 0, bottom = 0;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        if (out[static_cast<std::size_t>(3 * (y * kSide + x))] > middle) continue;
        left = std::min(left, x), right = std::max(right, x + 1);
        top = std::min(top, y), bottom = std::max(bottom, y + 1);
      }
    }
    // In pixels; the threshold may lose one pixel.
    const double unit = kSide / 1000.0;
    EXPECT_GE(left + 1, moved[0] * unit) << "page " << page;
    EXPECT_GE(top + 1, moved[1] * unit) << "page " << page;
    EXPECT_LE(right - 1, moved[2] * unit) << "page " << page;
    EXPECT_LE(bottom - 1, moved[3] * unit) << "page " << page;
    EXPECT_NEAR(left, moved[0] * unit, 2.5) << "page " << page;
    EXPECT_NEAR(top, moved[1] * unit, 2.5) << "page " << page;
    EXPECT_NEAR(right, moved[2] * unit, 2.5) << "page " << page;
    EXPECT_NEAR(bottom, moved[3] * unit, 2.5) << "page " << page;
    for (std::size_t i = 0; i < 4; ++i) moved_far += std::abs(moved[i] - box[i]) * unit > 3.5 ? 1 : 0;
  }
  EXPECT_GT(moved_far, 30) << "sides of 240: or the boxes might as well have stayed where they were";
}

TEST(Augmentation, IsDrawnFromSeedEpochAndPage) {
  const Box1000 box{300, 300, 600, 600};
  const auto moved = [&](const AugmentationKey& key) { return Augmentation::draw(key, 0.7, 1).move(box); };
  const AugmentationKey key{.seed = 4, .epoch = 5, .page = 6};
  EXPECT_EQ(moved(key), moved(key));
  EXPECT_NE(moved(key), moved({.seed = 7, .epoch = 5, .page = 6}));
  EXPECT_NE(moved(key), moved({.seed = 4, .epoch = 7, .page = 6}));
  EXPECT_NE(moved(key), moved({.seed = 4, .epoch = 5, .page = 7}));
}

// Without strength places stay and colours change; boxes at the edge may leave the page and are cut there.
TEST(Augmentation, KnowsWhatLeavesThePage) {
  const Box1000 all{0, 0, 1000, 1000};
  int left = 0;
  for (std::uint32_t page = 0; page < 200; ++page) {
    const AugmentationKey key{.seed = 1, .epoch = 0, .page = page};
    EXPECT_EQ(Augmentation::draw(key, 0.7, 0).move({1, 0, 999, 1000}), (Box1000{1, 0, 999, 1000}));
    EXPECT_TRUE(Augmentation::draw(key, 0.7, 0).keeps(all));
    const auto augmentation = Augmentation::draw(key, 0.7, 1);
    left += augmentation.keeps(all) ? 0 : 1;
    EXPECT_TRUE(box_on_page(augmentation.move(all)));
    EXPECT_TRUE(augmentation.keeps({300, 300, 600, 600}));
  }
  EXPECT_GT(left, 50);
  EXPECT_NE(picture_of(Augmentation::draw({.seed = 1, .epoch = 0, .page = 1}, 0.7, 0), page_with({100, 100, 300, 300})),
            picture_of(Augmentation(), page_with({100, 100, 300, 300})));
}

}  // namespace
}  // namespace plimsoll
