// Finds the package that has a header which a compiler does not find.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

// Says how to install the header that is missing according to the line, in small letters ("fatal error: cusparse.h: no
// such file or directory"); empty if the line names none that is known.
std::string_view source_of_header(std::string_view small);

}  // namespace plimsoll::doctor
