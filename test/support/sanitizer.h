// Adapts tests to sanitizers.
#pragma once

namespace plimsoll::test {

// False under a sanitizer, whose quarantine lets the resident set grow by megabytes from one plan to the next.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kResidentSetIsSteady = false;
#else
inline constexpr bool kResidentSetIsSteady = true;
#endif

}  // namespace plimsoll::test
