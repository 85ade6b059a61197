// Neighbouring elements that a thread reads and writes at once, or one by one if the tensor ends within them.
#pragma once

#include "backend/cuda/device.h"

namespace plimsoll::cuda {

// Loads the first `count` of N elements, then zeros; `from` is aligned to the bytes of all N.
template <int N, typename T>
__device__ inline Pack<T, N> read_pack(const T* from, int count = N) {
  if (count == N) return *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<T, N> pack{};
  for (int i = 0; i < N; ++i) {  // the bound is constant, so that the pack stays in registers
    if (i < count) pack.at[i] = from[i];
  }
  return pack;
}

template <typename T, int N>
__device__ inline void write_pack(const Pack<T, N>& pack, int count, T* to) {
  if (count == N) {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  } else {
    for (int i = 0; i < N; ++i) {
      if (i < count) to[i] = pack.at[i];
    }
  }
}

// The same as floats.
template <typename T, int N>
__device__ inline void load(const T* from, int count, float (&to)[N]) {
  const Pack<T, N> pack = read_pack<N>(from, count);
  for (int i = 0; i < N; ++i) to[i] = to_float(pack.at[i]);
}

template <typename T, int N>
__device__ inline void store(const float (&from)[N], int count, T* to) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) pack.at[i] = from_float<T>(from[i]);
  write_pack(pack, count, to);
}

// Calls make(pack), where pack() is how many elements of T are read at once: 16 bytes if contiguous rows of `width`
// elements are whole packs of that size, else 4 elements or 1.
template <typename T = float, typename Make>
void for_pack(std::int64_t width, const Make& make) {
  if constexpr (sizeof(T) == 2) {
    if (width % 8 == 0) return make(std::integral_constant<int, 8>{});
  }
  if (width % 4 == 0) {
    make(std::integral_constant<int, 4>{});
  } else {
    make(std::integral_constant<int, 1>{});
  }
}

}  // namespace plimsoll::cuda
