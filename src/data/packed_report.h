// The report on a block of pages as bytes, to be sent from the rank that checked it to the others.
//
//   const std::string packed = pack_report(report);
//   const BlockReport same = unpack_report(packed, options.places_kept);
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/page_checks.h"

namespace plimsoll {

std::string pack_report(const BlockReport& report);
BlockReport unpack_report(std::string_view packed, std::size_t places_kept);

}  // namespace plimsoll
