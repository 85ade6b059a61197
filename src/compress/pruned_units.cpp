#include "compress/pruned_units.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace plimsoll {

std::vector<double> WeighedUnits::importances() const {
  std::vector<double> sums(static_cast<std::size_t>(units.units));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    sums[i % sums.size()] += double{gradients[i]} * double{gradients[i]};
  }
  return sums;
}

std::vector<WeighedUnits> weigh_units(const Encoder& encoder, double keys_per_row) {
  std::map<std::string, LinearMap> maps;  // those that the graph computes
  for (LinearMap& map : encoder.linear_maps()) maps[map.name] = std::move(map);
  std::vector<WeighedUnits> groups;
  for (PrunableUnits& units : encoder.prunable()) {
    WeighedUnits group{.units = std::move(units)};
    const bool heads = group.units.kind == PrunableUnits::Kind::kHeads;
    for (const PrunableUnits::Stream& stream : group.units.streams) {
      const auto width = static_cast<double>(stream.width);
      for (const std::string& producer : stream.producers) {
        if (maps.contains(producer)) group.cost += width * static_cast<double>(maps[producer].in);
      }
      if (maps.contains(stream.consumer)) group.cost += width * static_cast<double>(maps[stream.consumer].out);
      if (heads) group.cost += 2 * width * keys_per_row;  // scores, and their product with the values
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

Masks all_units(const std::vector<WeighedUnits>& groups) {
  Masks masks;
  for (const WeighedUnits& group : groups) masks.emplace_back(static_cast<std::size_t>(group.units.units), true);
  return masks;
}

std::int64_t count_kept(const std::vector<bool>& kept) { return std::ranges::count(kept, true); }

double kept_cost(const std::vector<WeighedUnits>& groups, const Masks& masks) {
  double cost = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) cost += groups[g].cost * static_cast<double>(count_kept(masks[g]));
  return cost;
}

double kept_share(const std::vector<WeighedUnits>& groups, const Masks& masks) {
  return kept_cost(groups, masks) / kept_cost(groups, all_units(groups));
}

std::vector<std::int64_t> kept_layers(const std::vector<WeighedUnits>& groups, const Masks& masks) {
  std::set<std::int64_t> layers;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].units.used && count_kept(masks[g]) > 0) layers.insert(groups[g].units.layer);
  }
  return {layers.begin(), layers.end()};
}

std::int64_t common_width(const std::vector<WeighedUnits>& groups, const Masks& masks) {
  std::int64_t width = 1, multiple = 1;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PrunableUnits& units = groups[g].units;
    if (units.kind != PrunableUnits::Kind::kColumns) continue;
    multiple = std::lcm(multiple, units.shrink);
    if (units.used) width = std::max(width, units.shrink * count_kept(masks[g]));
  }
  return (width + multiple - 1) / multiple * multiple;
}

Masks stored_masks(const std::vector<WeighedUnits>& groups, const Masks& masks, PrunedLayout layout) {
  if (layout == PrunedLayout::kPlimsoll) return masks;
  const std::vector<std::int64_t> layers = kept_layers(groups, masks);
  const std::int64_t width = common_width(groups, masks);
  Masks stored = masks;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PrunableUnits& units = groups[g].units;
    if (!std::ranges::binary_search(layers, units.layer)) continue;
    const bool heads = units.kind == PrunableUnits::Kind::kHeads;
    const std::int64_t count = heads ? units.units : width / units.shrink;
    std::fill(stored[g].begin(), stored[g].end(), false);
    std::fill_n(stored[g].begin(), count, true);
  }
  return stored;
}

std::set<std::string> masked_maps(const Encoder& encoder) {
  std::set<std::string> computed, masked;
  for (const LinearMap& map : encoder.linear_maps()) computed.insert(map.name);
  for (const PrunableUnits& units : encoder.prunable()) {
    for (const PrunableUnits::Stream& stream : units.streams) {
      if (computed.contains(stream.consumer)) masked.insert(stream.consumer);
    }
  }
  return masked;
}

}  // namespace plimsoll
