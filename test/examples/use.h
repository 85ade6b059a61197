// What the examples in headers call the reader's own code.
#pragma once

namespace plimsoll {

template <typename... Arguments>
void use(const Arguments&... arguments);

}  // namespace plimsoll
