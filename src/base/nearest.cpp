#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace plimsoll {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two(b.size() + 1), one(b.size() + 1), now(b.size() + 1);
  std::iota(one.begin(), one.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({one[j] + 1, now[j - 1] + 1, one[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], two[j - 2] + 1);
    }
    two = std::exchange(one, now);
  }
  return one.back();
}

std::string nearest(const std::string& given, const std::vector<std::string>& names) {
  std::string best;
  // Up to a third of the letters may differ, but not one of two.
  std::size_t least = given.size() < 3 ? 1 : given.size() / 3 + 1;
  for (const std::string& name : names) {
    // "--save" for "--save-steps" counts as one wrong letter.
    const bool begins = given.size() > 4 && name.starts_with(given);
    const std::size_t far = begins ? 1 : edit_distance(given, name);
    if (far < least) {
      least = far;
      best = name;
    }
  }
  return best;
}

}  // namespace plimsoll
