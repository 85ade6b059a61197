// libFuzzer's entry, compiled once for each target of the preset `fuzz`; nothing elsewhere.
#ifdef PLIMSOLL_FUZZ_TARGET

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "fuzz/targets.h"

// libFuzzer's own time limit is by the wall's clock, which a busy machine stops: here it is the processor's time.
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
