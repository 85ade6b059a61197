#include "compress/mask_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"

namespace plimsoll {
namespace {

// Units that stay or go together: a head, or a block of columns of a layer or of every layer.
struct Item {
  struct Unit {
    std::size_t group, index;
  };
  std::vector<Unit> units;
  double importance = 0, cost = 0;

  double density() const { return importance / cost; }
};

// The most important units of each group are in its first item.
std::vector<std::vector<Item>> items_by_group(const std::vector<WeighedUnits>& groups, PrunableUnits::Kind kind,
                                              std::int64_t block) {
  std::vector<std::vector<Item>> all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const WeighedUnits& group = groups[g];
    if (group.units.kind != kind || !group.units.used) continue;
    const std::vector<double> importances = group.importances();
    std::vector<std::size_t> order(importances.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return importances[i]; });
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(1, block / group.units.shrink));
    std::vector<Item> items;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i % size == 0) items.emplace_back();
      items.back().units.push_back({g, order[i]});
      items.back().importance += importances[order[i]];
      items.back().cost += group.cost;
    }
    all.push_back(std::move(items));
  }
  return all;
}

// One group whose items are the groups' items of the same number.
std::vector<std::vector<Item>> joined(const std::vector<std::vector<Item>>& groups) {
  std::vector<Item> items;
  for (const std::vector<Item>& group : groups) {
    if (items.size() < group.size()) items.resize(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      std::ranges::copy(group[i].units, std::back_inserter(items[i].units));
      items[i].importance += group[i].importance;
      items[i].cost += group[i].cost;
    }
  }
  return {std::move(items)};
}

// Holds the units that every choice contains, and the rest by falling importance for its cost.
struct Candidates {
  std::vector<Item> always, others;
};

Candidates candidates(const std::vector<std::vector<Item>>& groups) {
  Candidates found;
  for (const std::vector<Item>& items : groups) {
    for (std::size_t i = 0; i < items.size(); ++i) (i == 0 ? found.always : found.others).push_back(items[i]);
  }
  std::ranges::stable_sort(found.others, std::greater(), &Item::density);
  return found;
}

}  // namespace

Masks search_masks(const std::vector<WeighedUnits>& groups, double share, const SearchOptions& options) {
  using Kind = PrunableUnits::Kind;
  const Candidates heads = candidates(items_by_group(groups, Kind::kHeads, 1));
  std::vector<std::vector<Item>> blocks = items_by_group(groups, Kind::kColumns, options.block);
  const Candidates columns = candidates(options.uniform_columns ? joined(blocks) : blocks);
  double room = share * kept_cost(groups, all_units(groups));
  for (const Item& item : heads.always) room -= item.cost;
  for (const Item& item : columns.always) room -= item.cost;
  // With the first `count` heads: what stays is worth so much, and these columns are among it.
  const auto columns_beside = [&](std::size_t count, double& worth) {
    double left = room;
    worth = 0;
    std::vector<const Item*> taken;
    for (std::size_t i = 0; i < count; ++i) {
      left -= heads.others[i].cost;
      worth += heads.others[i].importance;
    }
    if (left < 0 && count > 0) worth = -std::numeric_limits<double>::infinity();
    for (const Item& item : columns.others) {
      if (item.cost > left * (1 + 1e-12)) continue;
      left -= item.cost;
      worth += item.importance;
      taken.push_back(&item);
    }
    return taken;
  };
  std::size_t best = 0;
  double best_worth = -std::numeric_limits<double>::infinity(), worth = 0;
  for (std::size_t count = 0; count <= heads.others.size(); ++count) {
    columns_beside(count, worth);
    if (worth > best_worth) {
      best = count;
      best_worth = worth;
    }
  }
  Masks masks = all_units(groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].units.used) masks[g].assign(masks[g].size(), false);
  }
  const auto keep = [&masks](const Item& item) {
    for (const Item::Unit& unit : item.units) masks[unit.group][unit.index] = true;
  };
  std::ranges::for_each(heads.always, keep);
  std::ranges::for_each(columns.always, keep);
  std::for_each_n(heads.others.begin(), best, keep);
  for (const Item* item : columns_beside(best, worth)) keep(*item);
  return masks;
}

void rearrange_masks(const std::vector<WeighedUnits>& groups, Masks& masks, double diagonal_share) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const WeighedUnits& group = groups[g];
    const auto windows = static_cast<std::size_t>(group.windows());
    const std::size_t units = masks[g].size();
    if (!group.units.used || windows == 0) continue;
    // [units, windows], so that products of two units' gradients read neighbours.
    std::vector<float> turned(units * windows);
    std::vector<float> sum(windows);  // of the units that go
    for (std::size_t w = 0; w < windows; ++w) {
      for (std::size_t u = 0; u < units; ++u) {
        const float gradient = group.gradients[w * units + u];
        turned[u * windows + w] = gradient;
        if (!masks[g][u]) sum[w] += gradient;
      }
    }
    const auto row = [&](std::size_t unit) { return std::span(turned).subspan(unit * windows, windows); };
    const auto product = [windows](std::span<const float> a, std::span<const float> b) {
      std::array<float, 8> parts{};  // so that the compiler may compute several at once
      std::size_t w = 0;
      for (; w + 8 <= windows; w += 8) {
        for (std::size_t i = 0; i < 8; ++i) parts[i] += a[w + i] * b[w + i];
      }
      for (; w < windows; ++w) parts[0] += a[w] * b[w];
      return static_cast<double>(std::accumulate(parts.begin(), parts.end(), 0.0F));
    };
    const std::vector<double> importances = group.importances();
    for (std::size_t out = 0; out < units; ++out) {
      if (masks[g][out]) continue;
      // `out` comes back and `in` goes: the rise of |sum|^2, and that of the diagonal.
      std::size_t best = units;
      double best_rise = 0;
      const double own = importances[out] - 2 * product(sum, row(out));
      for (std::size_t in = 0; in < units; ++in) {
        if (!masks[g][in]) continue;
        const double block = own + importances[in] + 2 * product(sum, row(in)) - 2 * product(row(out), row(in));
        const double rise = (1 - diagonal_share) * block + diagonal_share * (importances[in] - importances[out]);
        if (rise < best_rise) {
          best = in;
          best_rise = rise;
        }
      }
      if (best == units) continue;
      for (std::size_t w = 0; w < windows; ++w) sum[w] += row(best)[w] - row(out)[w];
      masks[g][out] = true;
      masks[g][best] = false;
    }
  }
}

}  // namespace plimsoll
