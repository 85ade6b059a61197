#include "base/heap.h"

#include <malloc.h>

#include "base/process.h"

namespace plimsoll {

void keep_heap_small() {
  // Decoding a page allocates some MiB for a moment. They go back to the system afterwards, because a heap that kept
  // them would let the resident set grow by more than the plan knows.
  mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  mallopt(M_ARENA_MAX, 2);
}

FastHeap::FastHeap(int threads) {
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
  mallopt(M_ARENA_MAX, threads + 1);
}

FastHeap::~FastHeap() {
  keep_heap_small();
  release_free_heap();
}

}  // namespace plimsoll
