// The entry point for libFuzzer, compiled once for each target of the preset `fuzz` and nowhere else.
#ifdef PLIMSOLL_FUZZ_TARGET

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "fuzz/targets.h"

// libFuzzer limits wall time, which a busy machine prolongs; this limits processor time.
constexpr std::clock_t kSlow = 10 * CLOCKS_PER_SEC;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::clock_t begin = std::clock();
  plimsoll::fuzz::PLIMSOLL_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  if (std::clock() - begin > kSlow) {
    std::fputs("ERROR: more than 10 seconds of processor time for one input\n", stderr);
    std::abort();
  }
  return 0;
}

#endif
