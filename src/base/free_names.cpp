#include "base/free_names.h"

#include <fmt/format.h>

namespace plimsoll {

std::string FreeNames::take(const std::string& name) {
  if (taken_.insert(name).second) return name;
  std::size_t& number = last_.emplace(name, 1).first->second;
  std::string free;
  do {
    free = fmt::format("{}-{}", name, ++number);
  } while (!taken_.insert(free).second);
  return free;
}

}  // namespace plimsoll
