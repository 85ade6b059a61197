// T5's bidirectional logarithmic buckets (Raffel et al. 2020, section 2.1), used for relative positions
// and box distances: half the bins for each sign; half of these are exact distances, the rest grow logarithmically.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plimsoll {

// The largest allowed `max_distance`: kernels hold a table of all distances up to it.
inline constexpr std::int64_t kMostRelativeDistance = 65536;

// `relative` is key minus query; bins must be even and >= 4; the result is in 0..bins-1. Computed in float in the order
// of `transformers`, so that distances on a bucket's edge fall on the same side.
inline std::int32_t relative_bucket(std::int32_t relative, std::int32_t bins, std::int32_t max_distance) {
  const std::int32_t half = bins / 2;
  const std::int32_t offset = relative > 0 ? half : 0;
  const std::int32_t distance = relative < 0 ? -relative : relative;
  const std::int32_t exact = half / 2;
  if (distance < exact) return offset + distance;
  const float scaled = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                       static_cast<float>(std::log(static_cast<double>(max_distance) / exact)) *
                       static_cast<float>(half - exact);
  return offset + std::min(exact + static_cast<std::int32_t>(scaled), half - 1);
}

}  // namespace plimsoll
