// The range of box widths and heights that have rows in the spatial tables, clipped as in `transformers`: 0 .. 1023,
// however many rows the tables have.
//
//   const std::int64_t row = std::clamp<std::int64_t>(x1 - x0, 0, largest_box_size(table_rows));
#pragma once

#include <cstdint>

namespace plimsoll {

constexpr std::int64_t largest_box_size(std::int64_t table_rows) { return table_rows < 1024 ? table_rows - 1 : 1023; }

}  // namespace plimsoll
