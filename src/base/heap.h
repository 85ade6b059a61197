// How the heap trades memory for speed. Training must not hold memory that the plan does not know of; reading text from
// pictures allocates all the time, in every thread.
//
//   keep_heap_small();             // as main does
//   const FastHeap fast(4);        // until here ends
#pragma once

namespace plimsoll {

// From now on freed memory goes back to the system at once, and threads share two heaps.
void keep_heap_small();

// While it lives, each of `threads` threads has its own heap and keeps what it frees. The destructor gives free memory
// back to the system and calls keep_heap_small().
class FastHeap {
 public:
  explicit FastHeap(int threads);
  ~FastHeap();
  FastHeap(const FastHeap&) = delete;
  FastHeap& operator=(const FastHeap&) = delete;
};

}  // namespace plimsoll
