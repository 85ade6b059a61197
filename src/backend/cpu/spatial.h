// The six look-ups of a box, which spatial_embedding and its gradient share, in the order of their columns: x(x0) y(y0)
// x(x1) y(y1) h(y1-y0) w(x1-x0).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/box_size.h"

namespace plimsoll {

struct SpatialLookup {
  std::size_t table;  // 0..3: x, y, h, w
  std::int64_t row;
};

// Coordinates must be rows of the tables (the data reader has checked them).
inline std::array<SpatialLookup, 6> spatial_lookups(const std::int32_t* box, std::int64_t table_rows) {
  const std::int64_t x0 = box[0], y0 = box[1], x1 = box[2], y1 = box[3];
  const std::int64_t largest = largest_box_size(table_rows);
  return {{{0, x0},
           {1, y0},
           {0, x1},
           {1, y1},
           {2, std::clamp<std::int64_t>(y1 - y0, 0, largest)},
           {3, std::clamp<std::int64_t>(x1 - x0, 0, largest)}}};
}

}  // namespace plimsoll
