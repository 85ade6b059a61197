#include "base/heap.h"

#include <malloc.h>

#include "base/process.h"

namespace plimsoll {

void keep_heap_small() {
  // What a page's decoding takes for a moment goes back to the system afterwards, and threads share heaps: otherwise
  // the resident set would creep up behind the plan's back.
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  mallopt(M_ARENA_MAX, 2);
}

FastHeap::FastHeap(int threads) {
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 8 * kMiB);
  mallopt(M_TRIM_THRESHOLD, 32 * kMiB);
  mallopt(M_ARENA_MAX, threads + 1);
}

FastHeap::~FastHeap() {
  keep_heap_small();
  release_free_heap();
}

}  // namespace plimsoll
