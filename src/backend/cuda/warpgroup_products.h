// Products of matrices by a warpgroup, four warps whose first thread's number is a multiple of 128, by Hopper's tensor
// cores: the cores read operands from shared memory themselves, and the warps continue until they wait. Instructions:
// NVIDIA's PTX ISA, "Asynchronous warpgroup-level matrix instructions", m64n64k16 (sm_90a alone).
//
// Tiles are [64][64] halves, rows of 128 bytes, in shared memory that begins at a multiple of 1,024 bytes; a row's
// pieces of 16 bytes are swizzled so that neither rows nor columns have bank conflicts: piece p of row r is at p ^ r %
// 8 (CU_TENSOR_MAP_SWIZZLE_128B). Sums lie in registers as those of warp_products.h do, a warp's 16 rows in each.
#pragma once

#include "backend/cuda/warp_products.h"

namespace plimsoll::cuda {

inline constexpr int kGroupTile = 64, kGroupElements = kGroupTile * kGroupTile;
inline constexpr int kGroupThreads = 4 * static_cast<int>(kWarp);
inline constexpr int kGroupBlocks = kGroupTile / 8;

// Return the place of a thread in its warpgroup, and of its warp.
__device__ inline int group_thread() { return static_cast<int>(threadIdx.x) % kGroupThreads; }
__device__ inline int group_warp() { return group_thread() / static_cast<int>(kWarp); }
// Returns the number of its group in the block, which the compiler knows to be the same for all lanes, so that it
// computes what depends on it, such as the tiles of a product, once per warp.
__device__ inline int group_number() {
  return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}

PLIMSOLL_HOST_DEVICE constexpr int group_offset(int row, int column) {
  return row * kGroupTile + (column / 8 ^ row % 8) * 8 + column % 8;
}

using GroupSums = float[kGroupBlocks][4];
using GroupPairs = std::uint32_t[kGroupTile / 16][4];  // rounded sums, as an operand

// How an operand lies in its tile: a row of the operand, over which products are summed, is a row of the tile, or a
// column.
enum class InTile { kRows, kColumns };

// Called before a product: makes visible to the tensor cores what the threads wrote to shared memory (a barrier of the
// threads must follow), and the sums in their registers (products must follow).
__device__ inline void show_to_tensor_cores();
__device__ inline void begin_products();
// Called after products: makes them a group. wait_for_products returns when all groups except the last kPending are
// complete.
__device__ inline void commit_products();
template <int kPending>
__device__ inline void wait_for_products();

// sums[64, 64] += a[64, 64] b[64, 64]^T, or, !kAdds, = the product: a's and b's rows as InTile has them.
template <typename T, InTile kA, InTile kB, bool kAdds>
__device__ inline void start_product(GroupSums& sums, const T* a, const T* b);
// The same with a in registers.
template <typename T, InTile kB>
__device__ inline void start_product(GroupSums& sums, const GroupPairs& a, const T* b);

#ifdef PLIMSOLL_CUDA_EMULATED

inline void show_to_tensor_cores() {}
inline void begin_products() {}
inline void commit_products() { cuda_emulator::commit_products(); }
template <int kPending>
inline void wait_for_products() {
  cuda_emulator::wait_for_products(kPending);
}

namespace emulated {
// Returns two neighbours, from k on, of an operand's row, along which products are summed.
template <typename T, InTile kIn>
std::uint32_t pair_at(const T* tile, int row, int k) {
  const auto at = [&](int of_k) {
    return std::uint32_t{tile[kIn == InTile::kRows ? group_offset(row, of_k) : group_offset(of_k, row)].bits};
  };
  return at(k) | at(k + 1) << 16;
}
template <typename T, InTile kB, typename OfA>
void multiply(GroupSums& sums, const OfA& of_a, const T* b) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), across = lane / 4, along = lane % 4 * 2;
  for (int k = 0; k < kGroupTile; k += 16) {
    std::uint32_t a_part[4];
    of_a(k, a_part);
    for (int n = 0; n < kGroupBlocks; ++n) {
      mma<T>(sums[n], a_part,
             {pair_at<T, kB>(b, 8 * n + across, k + along), pair_at<T, kB>(b, 8 * n + across, k + along + 8)});
    }
  }
}
}  // namespace emulated

template <typename T, InTile kA, InTile kB, bool kAdds>
inline void start_product(GroupSums& sums, const T* a, const T* b) {
  cuda_emulator::start_product([&sums, a, b] {
    const int lane = static_cast<int>(threadIdx.x % kWarp), along = lane % 4 * 2;
    const int row = group_warp() * 16 + lane / 4;
    if (!kAdds) {
      for (auto& block : sums) block[0] = block[1] = block[2] = block[3] = 0;
    }
    emulated::multiply<T, kB>(
        sums,
        [&](int k, std::uint32_t(&part)[4]) {
          for (int i = 0; i < 4; ++i) {
            part[i] = emulated::pair_at<T, kA>(a, row + i % 2 * 8, k + along + i / 2 * 8);
          }
        },
        b);
  });
}
template <typename T, InTile kB>
inline void start_product(GroupSums& sums, const GroupPairs& a, const T* b) {
  cuda_emulator::start_product([&sums, &a, b] {
    emulated::multiply<T, kB>(
        sums,
        [&](int k, std::uint32_t(&part)[4]) {
          for (int i = 0; i < 4; ++i) part[i] = a[k / 16][i];
        },
        b);
  });
}

#else

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void show_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Returns the lower half of a swizzled tile's descriptor (PTX ISA, "Matrix descriptor format"): where the tile begins.
// The upper half is the same for all: 1,024 bytes from eight of its rows to the next eight. The leading offset, between
// tiles side by side, is not used.
template <typename T>
__device__ inline std::uint32_t tile_descriptor(const T* tile) {
  return std::uint32_t{1} << 16 | (shared_address(tile) & 0x3FFFF) / 16;
}
inline constexpr std::uint32_t kUpperDescriptor = std::uint32_t{1} << 30 | 1024 / 16;  // swizzled by 128 bytes
// A descriptor grows by this for an operand's next 16 elements along the summed dimension: 32 bytes of a row, or 16
// rows.
template <InTile kIn>
constexpr std::uint32_t kNextSixteen = kIn == InTile::kRows ? 32 / 16 : 16 * 128 / 16;

#define PLIMSOLL_GROUP_SUMS(s)                                                                                 \
  "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),     \
      "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]), "+f"(s[3][0]), "+f"(s[3][1]), \
      "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]), "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]), \
      "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]), "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3]), \
      "+f"(s[7][0]), "+f"(s[7][1]), "+f"(s[7][2]), "+f"(s[7][3])
#define PLIMSOLL_GROUP_NAMES                                                                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31}"
#define PLIMSOLL_GROUP_PRODUCT(type)                                                                               \
  asm volatile(                                                                                                    \
      "{\n.reg .pred p;\n.reg .b64 a, b;\nmov.b64 a, {%32, %37};\nmov.b64 b, {%33, %37};\n"                        \
      "setp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " PLIMSOLL_GROUP_NAMES \
      ", a, b, p, 1, 1, %35, %36;\n}"                                                                              \
      : PLIMSOLL_GROUP_SUMS(sums)                                                                                  \
      : "r"(a), "r"(b), "r"(adds), "n"(kA == InTile::kColumns ? 1 : 0), "n"(kB == InTile::kColumns ? 1 : 0),       \
        "r"(kUpperDescriptor))
#define PLIMSOLL_GROUP_PRODUCT_OF_REGISTERS(type)                                                                   \
  asm volatile("{\n.reg .b64 b;\nmov.b64 b, {%36, %38};\nwgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
               " " PLIMSOLL_GROUP_NAMES ", {%32, %33, %34, %35}, b, 1, 1, 1, %37;\n}"                               \
               : PLIMSOLL_GROUP_SUMS(sums)                                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "n"(kB == InTile::kColumns ? 1 : 0),           \
                 "r"(kUpperDescriptor))

template <typename T, InTile kA, InTile kB>
__device__ inline void start_sixteen(GroupSums& sums, std::uint32_t a, std::uint32_t b, int adds) {
  if constexpr (std::is_same_v<T, Bf16>) {
    PLIMSOLL_GROUP_PRODUCT("bf16");
  } else {
    PLIMSOLL_GROUP_PRODUCT("f16");
  }
}
template <typename T, InTile kB>
__device__ inline void start_sixteen(GroupSums& sums, const std::uint32_t (&a)[4], std::uint32_t b) {
  if constexpr (std::is_same_v<T, Bf16>) {
    PLIMSOLL_GROUP_PRODUCT_OF_REGISTERS("bf16");
  } else {
    PLIMSOLL_GROUP_PRODUCT_OF_REGISTERS("f16");
  }
}

#undef PLIMSOLL_GROUP_PRODUCT_OF_REGISTERS
#undef PLIMSOLL_GROUP_PRODUCT
#undef PLIMSOLL_GROUP_NAMES
#undef PLIMSOLL_GROUP_SUMS

template <typename T, InTile kA, InTile kB, bool kAdds>
__device__ inline void start_product(GroupSums& sums, const T* a, const T* b) {
  const std::uint32_t of_a = tile_descriptor(a), of_b = tile_descriptor(b);
#pragma unroll
  for (int k = 0; k < kGroupTile / 16; ++k) {
    start_sixteen<T, kA, kB>(sums, of_a + k * kNextSixteen<kA>, of_b + k * kNextSixteen<kB>, kAdds || k > 0 ? 1 : 0);
  }
}
template <typename T, InTile kB>
__device__ inline void start_product(GroupSums& sums, const GroupPairs& a, const T* b) {
  const std::uint32_t of_b = tile_descriptor(b);
#pragma unroll
  for (int k = 0; k < kGroupTile / 16; ++k) start_sixteen<T, kB>(sums, a[k], of_b + k * kNextSixteen<kB>);
}

#else  // code for other architectures, which is never launched

__device__ inline void show_to_tensor_cores() {}
__device__ inline void begin_products() {}
__device__ inline void commit_products() {}
template <int kPending>
__device__ inline void wait_for_products() {}
template <typename T, InTile kA, InTile kB, bool kAdds>
__device__ inline void start_product(GroupSums&, const T*, const T*) {}
template <typename T, InTile kB>
__device__ inline void start_product(GroupSums&, const GroupPairs&, const T*) {}

#endif
#endif

// Rounds sums to the operand of a product over their columns.
template <typename T>
__device__ inline void round_sums(const GroupSums& sums, GroupPairs& to) {
#pragma unroll
  for (int k = 0; k < kGroupTile / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const two = sums[2 * k + i / 2] + i % 2 * 2;
      to[k][i] = pair_of<T>(two[0], two[1]);
    }
  }
}

// Stores a warp's 16 rows of rounded sums into a tile.
template <typename T>
__device__ inline void store_pairs(T* tile, const GroupPairs& pairs) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#if defined(PLIMSOLL_CUDA_EMULATED)
  const int row = group_warp() * 16 + lane / 4;
  for (int k = 0; k < kGroupTile / 16; ++k) {
    for (int i = 0; i < 4; ++i) {
      T* const to = tile + group_offset(row + i % 2 * 8, 16 * k + i / 2 * 8 + lane % 4 * 2);
      *reinterpret_cast<std::uint32_t*>(to) = pairs[k][i];
    }
  }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // Stores four matrices of eight rows at a time; each lane gives the beginning of one row (PTX ISA, "stmatrix").
  const int row = group_warp() * 16 + lane / 8 % 2 * 8 + lane % 8, beside = lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kGroupTile / 16; ++k) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(tile + group_offset(row, 16 * k + beside))),
                 "r"(pairs[k][0]), "r"(pairs[k][1]), "r"(pairs[k][2]), "r"(pairs[k][3])
                 : "memory");
  }
#else
  static_cast<void>(lane);  // code for other architectures, which is never launched
#endif
}

}  // namespace plimsoll::cuda
