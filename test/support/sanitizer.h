// Adapts tests to sanitizers.
#pragma once

#include <cstdlib>
#include <string>

namespace plimsoll::test {

// False under a sanitizer, whose quarantine lets the resident set grow by megabytes from one plan to the next.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kResidentSetIsSteady = false;
#else
inline constexpr bool kResidentSetIsSteady = true;
#endif

// Programs that a test starts from now on report no leaks: MPI's libraries leave some, and are gone when they would be
// named. What the program itself leaks is found in the tests that start it without MPI.
inline void ignore_leaks_of_programs() {
  const char* const options = std::getenv("ASAN_OPTIONS");
  const std::string all = (options == nullptr ? std::string() : std::string(options) + ":") + "detect_leaks=0";
  if (!kResidentSetIsSteady) ::setenv("ASAN_OPTIONS", all.c_str(), 1);
}

}  // namespace plimsoll::test
