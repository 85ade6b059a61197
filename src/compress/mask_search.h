// Chooses which heads and columns to keep if only a share of the encoder's arithmetic may remain: the search and the
// rearrangement of Kwon et al. 2022 ("A Fast Post-Training Pruning Framework for Transformers").
//
//   Masks masks = search_masks(groups, 0.5, {});   // the diagonal of the Fisher information, over all layers
//   rearrange_masks(groups, masks);                // its blocks, within each layer
#pragma once

#include <cstdint>
#include <vector>

#include "compress/pruned_units.h"

namespace plimsoll {

struct SearchOptions {
  // For `transformers`, every layer keeps equally many columns, and removed heads take as much time as before, as
  // zeros.
  PrunedLayout layout = PrunedLayout::kPlimsoll;
  // The share of the arithmetic that may remain, not counting zeros. Our own layout stores no zeros.
  double nonzero_share = 1;
  // Columns are kept and removed in blocks of this many, sorted by importance, because products of odd widths are slow.
  std::int64_t block = 16;
};

// Returns the masks with the smallest sum of importances of removed units, among those that keep at most `share` (0 to
// 1) of everything stored: for each number of heads, the most important heads, then the columns that still fit. Every
// layer keeps at least a head and a block of columns, or is removed entirely: the least important layers first, but
// never the last, which the task's head reads. In our own layout, layers are removed entirely only if the share cannot
// be reached otherwise, because the effect of a layer's norms is lost with it, which importances do not measure; for
// `transformers`, whose layers have one width and all heads, as many layers are removed as leaves the most important
// units. If even the smallest model is larger than `share`, its masks are returned.
Masks search_masks(const std::vector<WeighedUnits>& groups, double share, const SearchOptions& options);

// Swaps removed and kept units within each group as long as that lowers the estimated rise of the loss: the sum over
// windows of the square of the gradient with respect to all removed units together. The numbers of kept units do not
// change. With few windows these sums say little about pairs of units, so `diagonal_share` of the estimate is the
// diagonal's.
void rearrange_masks(const std::vector<WeighedUnits>& groups, Masks& masks, double diagonal_share = 0.5);

}  // namespace plimsoll
