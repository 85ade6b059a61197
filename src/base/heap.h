// How the heap trades memory for speed. Training wants no byte that the plan does not know; reading text from pictures
// allocates all the time, in every thread.
//
//   keep_heap_small();             // as main does
//   const FastHeap fast(4);        // until here ends
#pragma once

namespace plimsoll {

// From now on freed memory goes back to the system at once, and threads share two heaps.
void keep_heap_small();

// As long as it lives, each of `threads` threads has a heap of its own and keeps what it frees. Its end gives free
// memory back to the system and calls keep_heap_small().
class FastHeap {
 public:
  explicit FastHeap(int threads);
  ~FastHeap();
  FastHeap(const FastHeap&) = delete;
  FastHeap& operator=(const FastHeap&) = delete;
};

}  // namespace plimsoll
