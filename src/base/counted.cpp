#include "base/counted.h"

namespace plimsoll {

std::string plural_of(std::string_view singular) {
  const auto ends_in = [singular](auto... endings) { return (singular.ends_with(endings) || ...); };
  const std::string noun(singular);
  if (ends_in("s", "x", "z", "ch", "sh")) return noun + "es";
  if (ends_in("y") && !ends_in("ay", "ey", "oy", "uy")) return noun.substr(0, noun.size() - 1) + "ies";
  return noun + "s";
}

}  // namespace plimsoll
