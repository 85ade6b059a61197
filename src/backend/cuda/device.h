// The language of the kernels: CUDA C++, or, for tests, an emulator (test/cuda_emulator) that runs the same source on
// the host, thread by thread, so that every kernel is tested on machines without a GPU.
//
// Rules that keep a kernel runnable in both: `launch` launches it; dynamic shared memory comes from
// `dynamic_shared<T>()`, static arrays are PLIMSOLL_SHARED, tables of constants PLIMSOLL_TABLE, large parameters, which
// are read in place, PLIMSOLL_IN_PLACE; halves are Bf16 and F16 below; a block must not wait for another, unless all
// blocks draw numbers when they begin and it waits for one with a smaller number (blocks.h).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#ifndef PLIMSOLL_CUDA_EMULATED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define PLIMSOLL_SHARED __shared__
#define PLIMSOLL_TABLE __device__ const
#define PLIMSOLL_IN_PLACE __grid_constant__
#define PLIMSOLL_HOST_DEVICE __host__ __device__
#else
#include "cuda_emulator.h"
#endif

#include "tensor/half.h"

namespace plimsoll::cuda {

// Halves as they are stored.
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

PLIMSOLL_HOST_DEVICE inline float to_float(float x) { return x; }
PLIMSOLL_HOST_DEVICE inline float to_float(Bf16 x) { return bfloat16_to_float(x.bits); }
#ifdef __CUDA_ARCH__
__device__ inline float to_float(F16 x) { return __half2float(__ushort_as_half(x.bits)); }
#else
PLIMSOLL_HOST_DEVICE inline float to_float(F16 x) { return half_to_float(x.bits); }
#endif

// a + b, but at least low and at most high: two instructions from sm_90 on.
PLIMSOLL_HOST_DEVICE inline int clamped_sum(int a, int b, int low, int high) {
#ifdef __CUDA_ARCH__
  return min(__viaddmax_s32(a, b, low), high);
#else
  return a + b < low ? low : a + b > high ? high : a + b;
#endif
}

// 2^x to two units in the last place, and 1/x to one; each is one instruction on a device.
#ifdef PLIMSOLL_CUDA_EMULATED
inline float exp2_fast(float x) { return std::exp2(x); }
inline float reciprocal_fast(float x) { return 1 / x; }
#else
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

// Rounds to nearest, ties to even.
template <typename T>
PLIMSOLL_HOST_DEVICE inline T from_float(float x);
template <>
PLIMSOLL_HOST_DEVICE inline float from_float<float>(float x) {
  return x;
}
template <>
PLIMSOLL_HOST_DEVICE inline Bf16 from_float<Bf16>(float x) {
#ifdef __CUDA_ARCH__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  return {float_to_bfloat16(x)};
#endif
}
template <>
PLIMSOLL_HOST_DEVICE inline F16 from_float<F16>(float x) {
#ifdef __CUDA_ARCH__
  return {__half_as_ushort(__float2half_rn(x))};
#else
  return {float_to_half(x)};
#endif
}

// The compute capability of the device that runs this, times ten, for kernels whose form depends on it.
#ifdef PLIMSOLL_CUDA_EMULATED
inline int device_architecture() { return cuda_emulator::machine().capability; }
#else
__device__ constexpr int device_architecture() {
#ifdef __CUDA_ARCH__
  return __CUDA_ARCH__ / 10;
#else
  return 0;  // never runs on the host
#endif
}
#endif

// Neighbouring elements that are read and written at once.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// Returns the same sum in every lane, always added in the same order.
__device__ inline float warp_sum(float x) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(step));
  return x;
}
__device__ inline double warp_sum(double x) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(step));
  return x;
}
__device__ inline float warp_max(float x) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, static_cast<int>(step)));
  }
  return x;
}

struct Launch {
  unsigned blocks = 1, threads = 1;  // along x
  unsigned blocks_y = 1, blocks_z = 1;
  std::size_t shared_bytes = 0;
};

// Every GPU and driver takes this much; newer ones take more.
inline constexpr std::size_t kMostParameterBytes = 4096;

#ifndef PLIMSOLL_CUDA_EMULATED
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char plimsoll_dynamic_shared[];
  return reinterpret_cast<T*>(plimsoll_dynamic_shared);
}

// Launches a kernel. The caller checks for errors of the launch itself (check_cuda(cudaGetLastError(), …)).
template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), const Launch& shape, Arguments&&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= kMostParameterBytes);
  if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return;
  kernel<<<dim3(shape.blocks, shape.blocks_y, shape.blocks_z), dim3(shape.threads), shape.shared_bytes, stream>>>(
      static_cast<Parameters>(arguments)...);
}
#else
template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(cuda_emulator::dynamic_shared());
}

template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), const Launch& shape, Arguments&&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= kMostParameterBytes);
  if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return;
  cuda_emulator::check_launch(reinterpret_cast<const void*>(kernel), {shape.blocks, shape.blocks_y, shape.blocks_z},
                              {shape.threads, 1, 1}, shape.shared_bytes);
  cuda_emulator::enqueue(stream, [kernel, shape, ... values = static_cast<Parameters>(arguments)] {
    cuda_emulator::run({shape.blocks, shape.blocks_y, shape.blocks_z}, {shape.threads, 1, 1}, shape.shared_bytes,
                       [&] { kernel(values...); });
  });
}
#endif

}  // namespace plimsoll::cuda
