#include "transform/shards.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace plimsoll {
namespace {

// A message takes about as long for this many elements as for fewer.
constexpr std::int64_t kSmallestPart = 4096;

}  // namespace

Shards::Shards(std::span<const ShardedParameter> parameters, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  check(rank >= 0 && rank < ranks, "a rank is one of the ranks");
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks), 0);
  for (const ShardedParameter& parameter : parameters) {
    const std::int64_t units = (parameter.elements + parameter.unit - 1) / std::max<std::int64_t>(1, parameter.unit);
    std::vector<std::int64_t> bounds{0};
    if (units < ranks || parameter.elements / ranks < kSmallestPart) {
      const auto least = std::ranges::min_element(owned) - owned.begin();
      for (std::int64_t r = 0; r < ranks; ++r) bounds.push_back(r < least ? 0 : parameter.elements);
    } else {
      for (std::int64_t r = 1; r <= ranks; ++r) {
        bounds.push_back(std::min(parameter.elements, units * r / ranks * parameter.unit));
      }
    }
    for (std::size_t r = 0; r < owned.size(); ++r) owned[r] += bounds[r + 1] - bounds[r];
    check(bounds_.emplace(parameter.name, std::move(bounds)).second, "a parameter is divided once");
  }
}

std::vector<std::string> Shards::names() const {
  std::vector<std::string> names;
  for (const auto& [name, bounds] : bounds_) names.push_back(name);
  return names;
}

bool Shards::divides(const std::string& name) const {
  const auto found = bounds_.find(name);
  if (ranks_ == 1 || found == bounds_.end()) return false;
  return std::ranges::adjacent_find(found->second, std::greater_equal()) == found->second.end();
}

Shards::Range Shards::range(const std::string& name, int rank) const {
  const auto& bounds = bounds_.at(name);
  const auto r = static_cast<std::size_t>(rank);
  return {.first = bounds[r], .count = bounds[r + 1] - bounds[r]};
}

}  // namespace plimsoll
