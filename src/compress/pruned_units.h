// The units of a model that pruning weighs, heads and columns of feed-forward networks, and which of them are kept.
//
//   std::vector<WeighedUnits> groups = weigh_units(*bundle.config.encoder, keys_per_row);
//   const Masks all = all_units(groups);
//   const double share = kept_share(groups, all);  // 1
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/definition.h"

namespace plimsoll {

struct WeighedUnits {
  PrunableUnits units;
  double cost = 0;  // multiply-adds of a unit for each row of the encoder; 0: it is never computed
  // [windows, units]: the gradient of each window's loss with respect to a factor of the unit, at 1.
  std::vector<float> gradients{};

  std::int64_t windows() const { return static_cast<std::int64_t>(gradients.size()) / units.units; }
  // The diagonal of the empirical Fisher information: the squares of a unit's gradients, summed over windows.
  std::vector<double> importances() const;
};

// By group, in the order of Encoder::prunable, and by unit: true means kept. A layer of which nothing is kept is
// removed entirely, so that its input is its output.
using Masks = std::vector<std::vector<bool>>;

// How a pruned model is stored (pruned_model.h).
enum class PrunedLayout : std::uint8_t { kTransformers, kPlimsoll };

// `keys_per_row` is how many rows of its own window a row attends to, on average over rows.
std::vector<WeighedUnits> weigh_units(const Encoder& encoder, double keys_per_row);
Masks all_units(const std::vector<WeighedUnits>& groups);
std::int64_t count_kept(const std::vector<bool>& kept);
// Return the multiply-adds of what is kept, and their share of all.
double kept_cost(const std::vector<WeighedUnits>& groups, const Masks& masks);
double kept_share(const std::vector<WeighedUnits>& groups, const Masks& masks);
// Returns the layers of which anything is kept, ascending.
std::vector<std::int64_t> kept_layers(const std::vector<WeighedUnits>& groups, const Masks& masks);
// Returns one width for all layers, as in config.json of `transformers`: that of the widest layer, rounded up to a
// multiple of each group's `shrink`.
std::int64_t common_width(const std::vector<WeighedUnits>& groups, const Masks& masks);
// Returns what is stored, and so computed, for these masks: for `transformers`, every head and the common width of the
// remaining layers, including zeros.
Masks stored_masks(const std::vector<WeighedUnits>& groups, const Masks& masks, PrunedLayout layout);
// Returns the maps whose input columns are units that the graph computes, and so have masks.
std::set<std::string> masked_maps(const Encoder& encoder);

}  // namespace plimsoll
