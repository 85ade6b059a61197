// Which package brings a header that a compiler does not find.
#pragma once

#include <string_view>

namespace plimsoll::doctor {

// How to install the header that the line, in small letters, says is missing ("fatal error: cusparse.h: no such file or
// directory"); empty where the line names none that is known.
std::string_view source_of_header(std::string_view small);

}  // namespace plimsoll::doctor
