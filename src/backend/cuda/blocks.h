// Functions that the threads of a block compute together: sums, always in the same order, maxima, and counts over the
// previous threads. Every thread of the block must call them.
#pragma once

#include "backend/cuda/device.h"

namespace plimsoll::cuda {

// Returns the sum over kThreads threads, a multiple of a warp, to all of them.
template <unsigned kThreads>
__device__ inline double block_sum(double x) {
  PLIMSOLL_SHARED double sums[kThreads / kWarp];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
  __syncthreads();
  double sum = 0;
  for (const double each : sums) sum += each;
  __syncthreads();  // the next sum may begin
  return sum;
}

template <unsigned kThreads>
__device__ inline float block_max(float x) {
  PLIMSOLL_SHARED float largest[kThreads / kWarp];
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) largest[threadIdx.x / kWarp] = x;
  __syncthreads();
  for (const float each : largest) x = fmaxf(x, each);
  __syncthreads();
  return x;
}

// Returns the sum of values[0..count), which the block's threads take in turn.
template <unsigned kThreads>
__device__ inline double block_sum_of(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += values[i];
  return block_sum<kThreads>(sum);
}

// Returns the sum of the lanes' values up to and including this lane's.
__device__ inline unsigned warp_running_sum(unsigned x) {
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const unsigned below = __shfl_up_sync(kAllLanes, x, step);
    if (threadIdx.x % kWarp >= step) x += below;
  }
  return x;
}

struct Place {
  unsigned before, all;  // sums of the values of the previous threads, and of all threads
};
template <unsigned kThreads>
__device__ inline Place block_place(unsigned x) {
  PLIMSOLL_SHARED unsigned sums[kThreads / kWarp];
  const unsigned warp = threadIdx.x / kWarp, running = warp_running_sum(x);
  if (threadIdx.x % kWarp == kWarp - 1) sums[warp] = running;
  __syncthreads();
  Place place{running - x, 0};
  for (unsigned i = 0; i < kThreads / kWarp; ++i) {
    if (i < warp) place.before += sums[i];
    place.all += sums[i];
  }
  __syncthreads();
  return place;
}

// --- blocks in turn --------------------------------------------------------------------------------------------------
//
// Blocks of one kernel add to the same place in a fixed order: block t waits for the blocks with smaller numbers, all
// of which have begun, so that the wait always ends, whichever blocks the device has room for.

// Numbers the blocks as they begin: returns the same number to all threads. `begun` is 0 before the kernel.
__device__ inline unsigned block_number(unsigned* begun) {
  PLIMSOLL_SHARED unsigned number;
  if (threadIdx.x == 0) number = atomicAdd(begun, 1U);
  __syncthreads();
  return number;
}

// Called by one thread; returns when another block has called end_turn(at, turn). After the next __syncthreads, what
// that block's threads stored before can be read with load_of_other_blocks.
__device__ inline void wait_for_turn(const unsigned* at, unsigned turn) {
#ifdef PLIMSOLL_CUDA_EMULATED
  cuda_emulator::expect_turn(*at == turn);
#else
  unsigned now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(at) : "memory");
  } while (now != turn);
#endif
}
// Does the same for threads that then only add, by atomic operations, to what the other block has added to: these
// operations run in the cache that all blocks share, so no thread reads stale values.
__device__ inline void wait_to_add(const unsigned* at, unsigned turn) {
#ifdef PLIMSOLL_CUDA_EMULATED
  cuda_emulator::expect_turn(*at == turn);
#else
  unsigned now = 0;
  do {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(at) : "memory");
  } while (now != turn);
#endif
}
// Called by one thread, after a __syncthreads that follows all stores of the block: a release covers everything that
// the thread has seen, and so these stores, too.
__device__ inline void end_turn(unsigned* at, unsigned turn) {
#ifdef PLIMSOLL_CUDA_EMULATED
  *at = turn;
#else
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(turn) : "memory");
#endif
}
// Loads past the first-level cache, which does not see what other blocks store. The compiler does not move it, so it
// may be placed as early as possible.
__device__ inline Pack<float, 4> load_of_other_blocks(const Pack<float, 4>* from) {
#ifdef PLIMSOLL_CUDA_EMULATED
  return *from;
#else
  Pack<float, 4> all;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(all.at[0]), "=f"(all.at[1]), "=f"(all.at[2]), "=f"(all.at[3])
               : "l"(from)
               : "memory");
  return all;
#endif
}

}  // namespace plimsoll::cuda
