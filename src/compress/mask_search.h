// Which heads and columns stay when only a share of the encoder's arithmetic may: the search and the rearrangement of
// Kwon et al. 2022 ("A Fast Post-Training Pruning Framework for Transformers").
//
//   Masks masks = search_masks(groups, 0.5, {});   // the diagonal of the Fisher information, over all layers
//   rearrange_masks(groups, masks);                // its blocks, within each layer
#pragma once

#include <cstdint>
#include <vector>

#include "compress/pruned_units.h"

namespace plimsoll {

struct SearchOptions {
  // For `transformers` every layer keeps as many columns, and heads that go take as much time as before, as zeros.
  PrunedLayout layout = PrunedLayout::kPlimsoll;
  // The share of the arithmetic that may be left without zeros. Our own layout stores no zeros.
  double nonzero_share = 1;
  // Columns stay and go in blocks of so many, the most important ones first, because products of odd widths are slow.
  std::int64_t block = 16;
};

// The masks of the least sum of the importances of what goes, of those that leave at most `share` (0 to 1) of
// everything stored: for each number of heads the heads of the largest importance, then the columns that still have
// room. Every layer keeps a head and a block of columns at least, or goes whole: the least important first, the last,
// which the head of the task reads, never. In our own layout layers go whole only if the share cannot be reached
// otherwise, because what a layer's norms do is lost with it, which importances do not see; for `transformers`, whose
// layers have one width and all heads, as many as leave the most important units. Where even the smallest model is
// larger than `share`, its masks are returned.
Masks search_masks(const std::vector<WeighedUnits>& groups, double share, const SearchOptions& options);

// Swaps units that go against units that stay within each group, as long as that lowers the estimated rise of the loss:
// the sum over windows of the square of the gradient with respect to all that goes together. The numbers that stay are
// the same. Of few windows these sums say little about pairs of units, so `diagonal_share` of the estimate is the
// diagonal's.
void rearrange_masks(const std::vector<WeighedUnits>& groups, Masks& masks, double diagonal_share = 0.5);

}  // namespace plimsoll
