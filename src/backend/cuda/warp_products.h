// Products of small matrices by one warp, from shared memory and registers: by tensor cores for halves, by plain
// arithmetic for float. For both, sums lie in registers in the layout of the mma instructions: for block n of 8
// columns, lane l holds row l / 4, columns 8n + 2 (l % 4) and the next, in sums[n][0] and [1], and the same columns of
// row l / 4 + 8 in [2] and [3].
//
// Matrices in shared memory are row-major with rows leading<T, K>() apart, so that neither way of reading them has bank
// conflicts. Instructions: NVIDIA's PTX ISA, "Matrix multiply-accumulate operation using mma instruction", m16n8k16.
#pragma once

#include <type_traits>

#include "backend/cuda/device.h"

namespace plimsoll::cuda {

// Returns the distance in elements between the rows of a matrix of `columns` in shared memory.
template <typename T>
PLIMSOLL_HOST_DEVICE constexpr int leading(int columns) {
  return columns + static_cast<int>(16 / sizeof(T));
}

// --- instructions ----------------------------------------------------------------------------------------------------

// c[16,8] += a[16,16] b[16,8], the operands as pairs of halves.
template <typename T>
__device__ inline void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

// Loads four 8x8 matrices of halves; lanes 8i to 8i + 7 give the rows of matrix i, which goes to to[i]: two neighbours
// of a row, or, transposed, of a column.
template <bool kTransposed, typename T>
__device__ inline void load_matrices(const T* row, std::uint32_t (&to)[4]);

// Copies 16, 8 or 4 bytes from global to shared memory, or zeros if `real` is false; done when wait_for_copies returns.
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global, bool real);
__device__ inline void commit_copies();
// Waits until all of this thread's committed groups except the last `kPending` have arrived.
template <int kPending>
__device__ inline void wait_for_copies();

#ifdef PLIMSOLL_CUDA_EMULATED
template <typename T>
inline void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  cuda_emulator::mma(c, a, b, [](std::uint16_t bits) { return to_float(T{bits}); });
}
template <bool kTransposed, typename T>
inline void load_matrices(const T* row, std::uint32_t (&to)[4]) {
  cuda_emulator::load_matrices(row, kTransposed, to);
}
template <int kBytes>
inline void copy_async(void* shared, const void* global, bool real) {
  cuda_emulator::copy_async(shared, global, kBytes, real);
}
inline void commit_copies() { cuda_emulator::commit_copies(); }
template <int kPending>
inline void wait_for_copies() {
  cuda_emulator::wait_for_copies(kPending);
}
#else
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

template <>
__device__ inline void mma<F16>(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
  }
#endif
}

// Turing has no bfloat16: each lane collects what it needs from the lanes that hold it. This is slow, and a separate
// function so that it is not inlined at every product.
template <typename T>
__device__ __noinline__ float4 mma_by_shuffles(float4 c, uint4 a, uint2 b) {
  const unsigned lane = threadIdx.x % kWarp, group = lane / 4, column = lane % 4 * 2;
#pragma unroll 1
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned holder = k % 8 / 2, shift = k % 2 * 16;
    const auto value = [shift](std::uint32_t pair, unsigned from) {
      const std::uint32_t theirs = __shfl_sync(kAllLanes, pair, static_cast<int>(from));
      return to_float(T{static_cast<std::uint16_t>(theirs >> shift)});
    };
    const float low = value(k < 8 ? a.x : a.z, group * 4 + holder);
    const float high = value(k < 8 ? a.y : a.w, group * 4 + holder);
    const float left = value(k < 8 ? b.x : b.y, column * 4 + holder);
    const float right = value(k < 8 ? b.x : b.y, (column + 1) * 4 + holder);
    c = {fmaf(low, left, c.x), fmaf(low, right, c.y), fmaf(high, left, c.z), fmaf(high, right, c.w)};
  }
  return c;
}

template <>
__device__ inline void mma<Bf16>(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const float4 sums = mma_by_shuffles<Bf16>({c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]});
  c[0] = sums.x, c[1] = sums.y, c[2] = sums.z, c[3] = sums.w;
#endif
}

template <bool kTransposed, typename T>
__device__ inline void load_matrices(const T* row, std::uint32_t (&to)[4]) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
}

template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global, bool real) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4);
#if __CUDA_ARCH__ >= 800
  const unsigned to = shared_address(shared), size = real ? kBytes : 0;
  if constexpr (kBytes == 16) {  // past the L1 cache, which supports only this size
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(global), "r"(size), "n"(kBytes)
                 : "memory");
  }
#else
  using Word = std::conditional_t<kBytes == 16, uint4, std::conditional_t<kBytes == 8, uint2, unsigned> >;
  *static_cast<Word*>(shared) = real ? *static_cast<const Word*>(global) : Word{};
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kPending>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
#endif

// --- products --------------------------------------------------------------------------------------------------------

// Packs two halves, the first in the low bits.
template <typename T>
__device__ inline std::uint32_t pair_of(float first, float second) {
  return from_float<T>(first).bits | static_cast<std::uint32_t>(from_float<T>(second).bits) << 16;
}

// sums[16, 8 kBlocks] += a[16, kDepth] b[8 kBlocks, kDepth]^T, both in shared memory.
template <int kDepth, int kBlocks>
__device__ inline void add_product_transposed(float (&sums)[kBlocks][4], const float* a, const float* b) {
  constexpr int kLeading = leading<float>(kDepth);
  const int lane = static_cast<int>(threadIdx.x % kWarp), row = lane / 4, column = lane % 4 * 2;
  const float *const a_low = a + row * kLeading, *const a_high = a + (row + 8) * kLeading;
  for (int k = 0; k < kDepth; k += 4) {
    const auto low = *reinterpret_cast<const Pack<float, 4>*>(a_low + k);
    const auto high = *reinterpret_cast<const Pack<float, 4>*>(a_high + k);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const float* const b_row = b + (8 * n + column) * kLeading + k;
      const auto left = *reinterpret_cast<const Pack<float, 4>*>(b_row);
      const auto right = *reinterpret_cast<const Pack<float, 4>*>(b_row + kLeading);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[n][0] = fmaf(low.at[i], left.at[i], sums[n][0]);
        sums[n][1] = fmaf(low.at[i], right.at[i], sums[n][1]);
        sums[n][2] = fmaf(high.at[i], left.at[i], sums[n][2]);
        sums[n][3] = fmaf(high.at[i], right.at[i], sums[n][3]);
      }
    }
  }
}

template <int kDepth, int kBlocks, typename T>
__device__ inline void add_product_transposed(float (&sums)[kBlocks][4], const T* a, const T* b) {
  static_assert(kDepth % 16 == 0 && kBlocks % 2 == 0);
  constexpr int kLeading = leading<T>(kDepth);
  const int lane = static_cast<int>(threadIdx.x % kWarp), matrix = lane / 8, in_matrix = lane % 8;
  const T* const a_row = a + (matrix % 2 * 8 + in_matrix) * kLeading + matrix / 2 * 8;
  const T* const b_row = b + (matrix / 2 * 8 + in_matrix) * kLeading + matrix % 2 * 8;
#pragma unroll 4
  for (int k = 0; k < kDepth; k += 16) {
    std::uint32_t a_part[4];
    load_matrices<false>(a_row + k, a_part);
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      std::uint32_t b_part[4];
      load_matrices<false>(b_row + 8 * n * kLeading + k, b_part);
      mma<T>(sums[n], a_part, {b_part[0], b_part[1]});
      mma<T>(sums[n + 1], a_part, {b_part[2], b_part[3]});
    }
  }
}

// sums[16, 8 kBlocks] += a[16, 8 kDepthBlocks] b[8 kDepthBlocks, 8 kBlocks]: a in registers, as sums are, rounded to T;
// b in shared memory. `staging` is the warp's alone: 16 rows leading<float>(8 kDepthBlocks) apart, for float only.
template <int kBlocks, int kDepthBlocks>
__device__ inline void add_product(float (&sums)[kBlocks][4], const float (&a)[kDepthBlocks][4], const float* b,
                                   float* staging) {
  constexpr int kDepth = 8 * kDepthBlocks, kLeading = leading<float>(8 * kBlocks), kStaging = leading<float>(kDepth);
  const int lane = static_cast<int>(threadIdx.x % kWarp), row = lane / 4, column = lane % 4 * 2;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kDepthBlocks; ++n) {
    for (int i = 0; i < 4; ++i) staging[(row + i / 2 * 8) * kStaging + 8 * n + column + i % 2] = a[n][i];
  }
  __syncwarp();
  for (int k = 0; k < kDepth; k += 4) {
    const auto low = *reinterpret_cast<const Pack<float, 4>*>(staging + row * kStaging + k);
    const auto high = *reinterpret_cast<const Pack<float, 4>*>(staging + (row + 8) * kStaging + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        const auto both = *reinterpret_cast<const Pack<float, 2>*>(b + (k + i) * kLeading + 8 * n + column);
        sums[n][0] = fmaf(low.at[i], both.at[0], sums[n][0]);
        sums[n][1] = fmaf(low.at[i], both.at[1], sums[n][1]);
        sums[n][2] = fmaf(high.at[i], both.at[0], sums[n][2]);
        sums[n][3] = fmaf(high.at[i], both.at[1], sums[n][3]);
      }
    }
  }
}

template <int kBlocks, int kDepthBlocks, typename T>
__device__ inline void add_product(float (&sums)[kBlocks][4], const float (&a)[kDepthBlocks][4], const T* b, float*) {
  static_assert(kBlocks % 2 == 0 && kDepthBlocks % 2 == 0);
  constexpr int kLeading = leading<T>(8 * kBlocks);
  const int lane = static_cast<int>(threadIdx.x % kWarp), matrix = lane / 8, in_matrix = lane % 8;
  const T* const b_row = b + (matrix % 2 * 8 + in_matrix) * kLeading + matrix / 2 * 8;
#pragma unroll
  for (int k = 0; k < kDepthBlocks; k += 2) {
    const std::uint32_t a_part[4] = {pair_of<T>(a[k][0], a[k][1]), pair_of<T>(a[k][2], a[k][3]),
                                     pair_of<T>(a[k + 1][0], a[k + 1][1]), pair_of<T>(a[k + 1][2], a[k + 1][3])};
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      std::uint32_t b_part[4];
      load_matrices<true>(b_row + 8 * k * kLeading + 8 * n, b_part);
      mma<T>(sums[n], a_part, {b_part[0], b_part[1]});
      mma<T>(sums[n + 1], a_part, {b_part[2], b_part[3]});
    }
  }
}

// Stores 16 rows of sums, rounded to T, with rows kLeading apart, once no lane of the warp reads what lies there.
template <int kLeading, int kBlocks, typename T>
__device__ inline void store_scores(T* to, const float (&sums)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<Pack<T, 2>*>(to + (lane / 4 + 8 * i) * kLeading + 8 * n + lane % 4 * 2) = {
          {from_float<T>(sums[n][2 * i]), from_float<T>(sums[n][2 * i + 1])}};
    }
  }
}

// sums[16, 8 kBlocks] += a[16, 16]^T b[16, 8 kBlocks], both in shared memory, with rows kLeadingA and kLeadingB apart.
template <int kLeadingA, int kLeadingB, int kBlocks>
__device__ inline void add_transposed_product(float (&sums)[kBlocks][4], const float* a, const float* b) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), row = lane / 4, column = lane % 4 * 2;
#pragma unroll 4
  for (int k = 0; k < 16; ++k) {
    const float low = a[k * kLeadingA + row], high = a[k * kLeadingA + row + 8];
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const auto both = *reinterpret_cast<const Pack<float, 2>*>(b + k * kLeadingB + 8 * n + column);
      sums[n][0] = fmaf(low, both.at[0], sums[n][0]);
      sums[n][1] = fmaf(low, both.at[1], sums[n][1]);
      sums[n][2] = fmaf(high, both.at[0], sums[n][2]);
      sums[n][3] = fmaf(high, both.at[1], sums[n][3]);
    }
  }
}
template <int kLeadingA, int kLeadingB, int kBlocks, typename T>
__device__ inline void add_transposed_product(float (&sums)[kBlocks][4], const T* a, const T* b) {
  static_assert(kBlocks % 2 == 0);
  const int lane = static_cast<int>(threadIdx.x % kWarp), matrix = lane / 8, in_matrix = lane % 8;
  std::uint32_t a_part[4];
  load_matrices<true>(a + (matrix / 2 * 8 + in_matrix) * kLeadingA + matrix % 2 * 8, a_part);
  const T* const b_row = b + (matrix % 2 * 8 + in_matrix) * kLeadingB + matrix / 2 * 8;
#pragma unroll
  for (int n = 0; n < kBlocks; n += 2) {
    std::uint32_t b_part[4];
    load_matrices<true>(b_row + 8 * n, b_part);
    mma<T>(sums[n], a_part, {b_part[0], b_part[1]});
    mma<T>(sums[n + 1], a_part, {b_part[2], b_part[3]});
  }
}

}  // namespace plimsoll::cuda
