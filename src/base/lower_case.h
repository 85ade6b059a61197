// Text compared whatever the case of its letters.
//
//   const bool is_png = lower_case(path.extension().string()) == ".png";
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Returns `text` with the letters A to Z as a to z; other bytes stay.
std::string lower_case(std::string_view text);

}  // namespace plimsoll
