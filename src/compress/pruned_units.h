// The units of a model that pruning weighs, heads and columns of feed-forward networks, and which of them stay.
//
//   std::vector<WeighedUnits> groups = weigh_units(*bundle.config.encoder, keys_per_row);
//   const Masks all = all_units(groups);
//   const double share = kept_share(groups, all);  // 1
#pragma once

#include <cstdint>
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

// By group, in the order of Encoder::prunable, and by unit: true stays.
using Masks = std::vector<std::vector<bool>>;

// `keys_per_row`: how many rows of its own window a row attends to, on average over rows.
std::vector<WeighedUnits> weigh_units(const Encoder& encoder, double keys_per_row);
Masks all_units(const std::vector<WeighedUnits>& groups);
std::int64_t count_kept(const std::vector<bool>& kept);
// The multiply-adds of what stays, and their share of those of everything.
double kept_cost(const std::vector<WeighedUnits>& groups, const Masks& masks);
double kept_share(const std::vector<WeighedUnits>& groups, const Masks& masks);
// The maps whose input columns are units that the graph computes: those that have masks.
std::set<std::string> masked_maps(const Encoder& encoder);

}  // namespace plimsoll
