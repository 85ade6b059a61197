#include "compress/mask_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

// Units that are kept or removed together: a head, or a block of columns of a layer or of every layer.
struct Item {
  struct Unit {
    std::size_t group, index;
  };
  std::vector<Unit> units;
  double importance = 0, cost = 0;

  double density() const { return importance / cost; }
};

// Cuts the groups of the layers that are not `gone` into items; a group's first item has its most important units.
std::vector<std::vector<Item>> items_by_group(const std::vector<WeighedUnits>& groups, PrunableUnits::Kind kind,
                                              std::int64_t block, std::span<const std::int64_t> gone) {
  std::vector<std::vector<Item>> all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const WeighedUnits& group = groups[g];
    if (group.units.kind != kind || !group.units.used || std::ranges::count(gone, group.units.layer) > 0) continue;
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

// The units that every choice contains, and the rest by descending importance per cost.
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

double cost_of(const std::vector<Item>& items) {
  return std::accumulate(items.begin(), items.end(), 0.0, [](double sum, const Item& item) { return sum + item.cost; });
}

// Returns all layers but the last, the least important first.
std::vector<std::int64_t> layers_by_importance(const std::vector<WeighedUnits>& groups) {
  std::map<std::int64_t, double> importance;
  for (const WeighedUnits& group : groups) {
    const std::vector<double> of_units = group.importances();
    importance[group.units.layer] += std::accumulate(of_units.begin(), of_units.end(), 0.0);
  }
  std::vector<std::int64_t> layers;
  for (const auto& [layer, sum] : importance) layers.push_back(layer);
  if (!layers.empty()) layers.pop_back();
  std::ranges::stable_sort(layers, {}, [&](std::int64_t layer) { return importance.at(layer); });
  return layers;
}

// The best choice without some layers.
class Choice {
 public:
  // `stored` and `nonzero` are the multiply-adds that may remain.
  Choice(const std::vector<WeighedUnits>& groups, std::span<const std::int64_t> gone, double stored, double nonzero,
         const SearchOptions& options)
      : groups_(groups),
        heads_(candidates(items_by_group(groups, PrunableUnits::Kind::kHeads, 1, gone))),
        stores_all_heads_(options.layout == PrunedLayout::kTransformers),
        stored_(stored),
        nonzero_(nonzero) {
    const auto blocks = items_by_group(groups, PrunableUnits::Kind::kColumns, options.block, gone);
    columns_ = candidates(stores_all_heads_ ? joined(blocks) : blocks);
    for (std::size_t count = 0; count <= heads_.others.size(); ++count) {
      double worth = 0;
      columns_beside(count, worth);
      if (worth <= worth_) continue;
      count_ = count;
      worth_ = worth;
    }
  }

  // Returns whether the units that are always kept are within the limits.
  bool fits() const { return room(0) >= 0; }
  double worth() const { return worth_; }

  Masks masks() const {
    Masks masks = all_units(groups_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].units.used) masks[g].assign(masks[g].size(), false);
    }
    const auto keep = [&masks](const Item& item) {
      for (const Item::Unit& unit : item.units) masks[unit.group][unit.index] = true;
    };
    std::ranges::for_each(heads_.always, keep);
    std::ranges::for_each(columns_.always, keep);
    std::for_each_n(heads_.others.begin(), count_, keep);
    double worth = 0;
    for (const Item* item : columns_beside(count_, worth)) keep(*item);
    return masks;
  }

 private:
  // Returns the room for further columns besides the first `count` heads.
  double room(std::size_t count) const {
    double heads = cost_of(heads_.always);
    for (std::size_t i = 0; i < count; ++i) heads += heads_.others[i].cost;
    const double of_all = cost_of(heads_.always) + cost_of(heads_.others);
    return std::min(stored_ - (stores_all_heads_ ? of_all : heads), nonzero_ - heads) - cost_of(columns_.always);
  }

  // Returns the columns to keep with the first `count` heads; `worth` becomes the worth of everything kept.
  std::vector<const Item*> columns_beside(std::size_t count, double& worth) const {
    double left = room(count);
    worth = 0;
    for (const Item& item : heads_.always) worth += item.importance;
    for (const Item& item : columns_.always) worth += item.importance;
    for (std::size_t i = 0; i < count; ++i) worth += heads_.others[i].importance;
    if (left < 0 && count > 0) worth = -std::numeric_limits<double>::infinity();
    std::vector<const Item*> taken;
    for (const Item& item : columns_.others) {
      if (item.cost > left * (1 + 1e-12)) continue;
      left -= item.cost;
      worth += item.importance;
      taken.push_back(&item);
    }
    return taken;
  }

  const std::vector<WeighedUnits>& groups_;
  Candidates heads_, columns_{};
  bool stores_all_heads_;
  double stored_, nonzero_;
  std::size_t count_ = 0;  // how many of the removable heads are kept
  double worth_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

Masks search_masks(const std::vector<WeighedUnits>& groups, double share, const SearchOptions& options) {
  const std::vector<std::int64_t> layers = layers_by_importance(groups);
  const double everything = kept_cost(groups, all_units(groups));
  std::optional<Choice> best;
  for (std::size_t gone = 0; gone <= layers.size(); ++gone) {
    Choice choice(groups, std::span(layers).first(gone), share * everything, options.nonzero_share * everything,
                  options);
    if (!best || !best->fits() || (choice.fits() && choice.worth() > best->worth())) best.emplace(std::move(choice));
    if (options.layout == PrunedLayout::kPlimsoll && best->fits()) break;
  }
  return best->masks();
}

void rearrange_masks(const std::vector<WeighedUnits>& groups, Masks& masks, double diagonal_share) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const WeighedUnits& group = groups[g];
    const auto windows = static_cast<std::size_t>(group.windows());
    const std::size_t units = masks[g].size();
    if (!group.units.used || windows == 0) continue;
    // [units, windows], so that products of two units' gradients read neighbours.
    std::vector<float> turned(units * windows);
    std::vector<float> sum(windows);  // over the removed units
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
      // If `out` is restored and `in` removed: the rise of |sum|^2, and that of the diagonal.
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
