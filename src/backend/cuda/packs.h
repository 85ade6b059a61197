// Neighbours that a thread reads and writes in one go, or one by one where a tensor ends within them.
#pragma once

#include "backend/cuda/device.h"

namespace plimsoll::cuda {

// The first `count` of N; `from` lies on a multiple of their bytes. Zeros behind them.
template <int N, typename T>
__device__ inline Pack<T, N> read_pack(const T* from, int count = N) {
  if (count == N) return *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<T, N> pack{};
  for (int i = 0; i < N; ++i) {  // whose end is known, so that the pack stays in registers
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

// make(pack), pack() being the most elements of T that are read in one go, 16 bytes, where rows of `width` elements,
// one behind the other, are whole packs of so many; else 4 or 1.
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
