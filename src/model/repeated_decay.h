// The weight decay of many updates at once, for values that are not in memory while they happen.
#pragma once

#include <span>

namespace plimsoll {

// Multiplies each value by each factor in turn, rounding to a float each time.
void decay_repeatedly(std::span<float> values, std::span<const float> factors);

}  // namespace plimsoll
