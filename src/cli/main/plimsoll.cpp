#include <malloc.h>

#include "cli/app.h"

int main(int argc, char** argv) {
  // What a page's decoding takes for a moment goes back to the system afterwards, and threads share heaps: otherwise the
  // resident set would creep up behind the plan's back.
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  mallopt(M_ARENA_MAX, 2);
  return plimsoll::run_cli(argc, argv);
}
