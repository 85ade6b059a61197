// The search against every choice there is, the rearrangement against its own estimate, least squares against
// elimination.
#include "compress/mask_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "compress/least_squares.h"

namespace plimsoll {
namespace {

using Kind = PrunableUnits::Kind;

// A group whose units have these gradients in one window.
WeighedUnits group_of(Kind kind, double cost, const std::vector<float>& gradients) {
  WeighedUnits group;
  group.units.kind = kind;
  group.units.units = std::ssize(gradients);
  group.cost = cost;
  group.gradients = gradients;
  return group;
}

double lost(const std::vector<WeighedUnits>& groups, const Masks& masks) {
  double sum = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<double> importances = groups[g].importances();
    for (std::size_t u = 0; u < importances.size(); ++u) sum += masks[g][u] ? 0 : importances[u];
  }
  return sum;
}

// The least that any masks within the share lose which keep a unit of each group.
double least_lost(const std::vector<WeighedUnits>& groups, double share) {
  std::size_t units = 0;
  for (const WeighedUnits& group : groups) units += static_cast<std::size_t>(group.units.units);
  double least = INFINITY;
  for (std::size_t choice = 0; choice < (std::size_t{1} << units); ++choice) {
    Masks masks = all_units(groups);
    std::size_t bit = 0;
    bool whole = true;
    for (std::vector<bool>& mask : masks) {
      for (std::size_t u = 0; u < mask.size(); ++u, ++bit) mask[u] = ((choice >> bit) & 1U) != 0;
      whole = whole && count_kept(mask) > 0;
    }
    if (whole && kept_share(groups, masks) <= share + 1e-12) least = std::min(least, lost(groups, masks));
  }
  return least;
}

TEST(MaskSearch, FindsTheLeastLossOfAllChoices) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
  };
  for (int round = 0; round < 20; ++round) {
    const std::vector<WeighedUnits> groups = {group_of(Kind::kHeads, 4, draw(3)), group_of(Kind::kColumns, 1, draw(5)),
                                              group_of(Kind::kHeads, 4, draw(3)), group_of(Kind::kColumns, 1, draw(5))};
    for (const double share : {0.3, 0.5, 0.8, 1.0}) {
      const Masks masks = search_masks(groups, share, {.block = 1});
      EXPECT_LE(kept_share(groups, masks), share + 1e-12);
      EXPECT_NEAR(lost(groups, masks), least_lost(groups, share), 1e-9) << share;
    }
  }
}

TEST(MaskSearch, KeepsAHeadAndABlockOfEachLayer) {
  const std::vector<WeighedUnits> groups = {group_of(Kind::kHeads, 4, {0, 0, 1}),
                                            group_of(Kind::kColumns, 1, {5, 1, 2, 3, 4}),
                                            group_of(Kind::kColumns, 1, {0, 0, 0, 0, 0})};
  const Masks masks = search_masks(groups, 0, {.block = 2});
  EXPECT_EQ(masks[0], (std::vector<bool>{false, false, true}));
  EXPECT_EQ(masks[1], (std::vector<bool>{true, false, false, false, true}));
  EXPECT_EQ(count_kept(masks[2]), 2);
}

TEST(MaskSearch, GivesAllLayersOneWidthIfAsked) {
  WeighedUnits narrow = group_of(Kind::kColumns, 0.25, {1, 1, 1, 1});
  narrow.units.shrink = 4;
  WeighedUnits unused = group_of(Kind::kColumns, 0, {0, 0, 0, 0});
  unused.units.used = false;
  const std::vector<WeighedUnits> groups = {group_of(Kind::kColumns, 1, std::vector<float>(16, 3)),
                                            group_of(Kind::kColumns, 1, std::vector<float>(16, 1)), narrow, unused};
  const Masks masks = search_masks(groups, 0.5, {.layout = PrunedLayout::kTransformers, .block = 4});
  EXPECT_EQ(count_kept(masks[0]), 8);
  EXPECT_EQ(count_kept(masks[1]), 8);
  EXPECT_EQ(count_kept(masks[2]), 2);
  EXPECT_EQ(count_kept(masks[3]), 4);  // not the search's business
}

// Three layers, each of two heads of cost 4 and eight columns of cost 1, whose gradients are all `size[layer]`.
std::vector<WeighedUnits> layers_of(const std::vector<float>& size) {
  std::vector<WeighedUnits> groups;
  for (std::size_t layer = 0; layer < size.size(); ++layer) {
    for (const Kind kind : {Kind::kHeads, Kind::kColumns}) {
      const bool heads = kind == Kind::kHeads;
      groups.push_back(group_of(kind, heads ? 4 : 1, std::vector<float>(heads ? 2 : 8, size[layer])));
      groups.back().units.layer = static_cast<std::int64_t>(layer);
    }
  }
  return groups;
}

double stored_share(const std::vector<WeighedUnits>& groups, const Masks& masks, PrunedLayout layout) {
  return kept_share(groups, stored_masks(groups, masks, layout));
}

// For `transformers` a head that goes is stored, so no head goes for the sake of arithmetic, and the share holds for
// what is stored.
TEST(MaskSearch, HeadsThatAreStoredAsZerosSaveNothing) {
  const std::vector<WeighedUnits> groups = layers_of({3, 3, 3});
  const Masks masks = search_masks(groups, 0.75, {.layout = PrunedLayout::kTransformers, .block = 2});
  EXPECT_LE(stored_share(groups, masks, PrunedLayout::kTransformers), 0.75);
  EXPECT_GT(stored_share(groups, masks, PrunedLayout::kTransformers), 0.6);
  for (const std::int64_t layer : kept_layers(groups, masks)) {
    EXPECT_EQ(count_kept(masks[static_cast<std::size_t>(2 * layer)]), 2) << layer;
  }
  // Where zeros are asked for, heads go, but what is stored is more than what is not zero.
  const Masks sparse =
      search_masks(groups, 1, {.layout = PrunedLayout::kTransformers, .nonzero_share = 0.5, .block = 8});
  EXPECT_LE(kept_share(groups, sparse), 0.5);
  EXPECT_GE(stored_share(groups, sparse, PrunedLayout::kTransformers), kept_share(groups, sparse));
}

// A layer that nothing is owed to goes whole, where that leaves room for columns of the others.
TEST(MaskSearch, WholeLayersGoForTransformers) {
  const std::vector<WeighedUnits> groups = layers_of({3, 0.01F, 3});
  const Masks masks = search_masks(groups, 0.67, {.layout = PrunedLayout::kTransformers, .block = 2});
  EXPECT_EQ(kept_layers(groups, masks), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(count_kept(masks[0]), 2);
  EXPECT_EQ(count_kept(masks[1]), 8);
  EXPECT_NEAR(stored_share(groups, masks, PrunedLayout::kTransformers), 2.0 / 3, 1e-12);
  // The last layer stays, however little it is worth.
  const std::vector<WeighedUnits> others = layers_of({3, 3, 0.01F});
  const Masks of_others = search_masks(others, 0.67, {.layout = PrunedLayout::kTransformers, .block = 2});
  EXPECT_EQ(kept_layers(others, of_others).back(), 2);
}

// Layers of their own widths go whole only where narrow ones do not suffice.
TEST(MaskSearch, OurLayersGoWholeAsALastResort) {
  const std::vector<WeighedUnits> groups = layers_of({3, 1, 2});
  const SearchOptions options{.block = 2};  // the narrowest layer costs 6 of 16
  EXPECT_EQ(kept_layers(groups, search_masks(groups, 0.4, options)), (std::vector<std::int64_t>{0, 1, 2}));
  const Masks masks = search_masks(groups, 0.3, options);
  EXPECT_EQ(kept_layers(groups, masks), (std::vector<std::int64_t>{0, 2}));
  EXPECT_LE(kept_share(groups, masks), 0.3);
  EXPECT_EQ(kept_layers(groups, search_masks(groups, 0, options)), (std::vector<std::int64_t>{2}));
}

// Twins: two units whose gradients cancel may go together at no loss, which the diagonal does not see.
TEST(MaskSearch, RearrangementFindsUnitsThatCancel) {
  WeighedUnits group = group_of(Kind::kColumns, 1, {3, -3, 2, 2, 3, -3, 2, 2});
  group.units.units = 4;
  const std::vector<WeighedUnits> groups = {group};
  Masks masks = {{true, true, false, false}};  // what the diagonal says
  rearrange_masks(groups, masks, 0);
  EXPECT_EQ(masks[0], (std::vector<bool>{false, false, true, true}));
}

TEST(MaskSearch, RearrangementNeverRaisesTheEstimate) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  constexpr std::size_t kUnits = 24, kWindows = 9;
  WeighedUnits group = group_of(Kind::kColumns, 1, std::vector<float>(kUnits * kWindows));
  group.units.units = kUnits;
  for (float& value : group.gradients) value = normal(random);
  const auto estimate = [&](const std::vector<bool>& kept) {
    double sum = 0;
    for (std::size_t w = 0; w < kWindows; ++w) {
      double of_window = 0;
      for (std::size_t u = 0; u < kUnits; ++u) of_window += kept[u] ? 0 : group.gradients[w * kUnits + u];
      sum += of_window * of_window;
    }
    return sum;
  };
  Masks masks(1, std::vector<bool>(kUnits));
  for (std::size_t u = 0; u < kUnits; ++u) masks[0][u] = u % 2 == 0;
  const double before = estimate(masks[0]);
  rearrange_masks({group}, masks, 0);
  EXPECT_LT(estimate(masks[0]), 0.5 * before);
  EXPECT_EQ(count_kept(masks[0]), static_cast<std::int64_t>(kUnits / 2));
}

// Gauss's elimination with the largest pivot.
std::vector<double> eliminate(std::vector<double> a, std::vector<double> b) {
  const std::size_t k = b.size();
  for (std::size_t i = 0; i < k; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i; r < k; ++r) pivot = std::abs(a[r * k + i]) > std::abs(a[pivot * k + i]) ? r : pivot;
    for (std::size_t c = 0; c < k; ++c) std::swap(a[i * k + c], a[pivot * k + c]);
    std::swap(b[i], b[pivot]);
    for (std::size_t r = 0; r < k; ++r) {
      const double factor = r == i ? 0 : a[r * k + i] / a[i * k + i];
      for (std::size_t c = 0; c < k; ++c) a[r * k + c] -= factor * a[i * k + c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = 0; i < k; ++i) b[i] /= a[i * k + i];
  return b;
}

TEST(LeastSquares, EqualsElimination) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  constexpr std::size_t kColumns = 13, kRows = 40;
  constexpr double kRidge = 0.01;
  std::vector<double> x(kRows * kColumns), gram(kColumns * kColumns), right(2 * kColumns);
  for (double& value : x) value = normal(random);
  for (double& value : right) value = normal(random);
  for (std::size_t i = 0; i < gram.size(); ++i) {
    for (std::size_t r = 0; r < kRows; ++r) gram[i] += x[r * kColumns + i / kColumns] * x[r * kColumns + i % kColumns];
  }
  std::vector<double> damped = gram, solved = right;
  for (std::size_t i = 0; i < kColumns; ++i) damped[i * kColumns + i] *= 1 + kRidge;
  solve_ridge(gram, solved, kColumns, kRidge);
  for (std::size_t b = 0; b < 2; ++b) {
    const auto begin = right.begin() + static_cast<std::ptrdiff_t>(b * kColumns);
    const std::vector<double> expected = eliminate(damped, {begin, begin + kColumns});
    for (std::size_t i = 0; i < kColumns; ++i) EXPECT_NEAR(solved[b * kColumns + i], expected[i], 1e-12);
  }
}

TEST(LeastSquares, LeavesColumnsOfZerosAlone) {
  std::vector<double> gram = {4, 0, 2, 0, 0, 0, 2, 0, 5}, right = {8, 1, 9};
  solve_ridge(gram, right, 3, 0);
  const std::vector<double> expected = eliminate({4, 2, 2, 5}, {8, 9});
  EXPECT_NEAR(right[0], expected[0], 1e-12);
  EXPECT_EQ(right[1], 0);
  EXPECT_NEAR(right[2], expected[1], 1e-12);
}

}  // namespace
}  // namespace plimsoll
