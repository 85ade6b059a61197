// Text comparison that ignores case.
//
//   const bool is_png = lower_case(path.extension().string()) == ".png";
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Returns `text` with the letters A to Z changed to a to z; other bytes are unchanged.
std::string lower_case(std::string_view text);

}  // namespace plimsoll
