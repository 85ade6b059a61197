#include "matrix_rate.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/tile_product_bf16.h"
#include "backend/cpu/tile_shapes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll {
namespace {

#if defined(__x86_64__)

// The empty assembly makes the compiler keep each sum in a register and assume nothing about its value.
#define PLIMSOLL_KEEP(x) asm volatile("" : "+x"(x))
#define PLIMSOLL_KEEP_WIDE(x) asm volatile("" : "+v"(x))

constexpr int kSums = 12;  // more than latency (4 or 5 cycles) times instructions per cycle (2)

__attribute__((target("avx2,fma"))) void run_avx2(std::int64_t rounds) {
  __m256 a = _mm256_set1_ps(1e-9F), b = _mm256_set1_ps(0.5F);
  PLIMSOLL_KEEP(a);
  PLIMSOLL_KEEP(b);
  __m256 sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_setzero_ps();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm256_fmadd_ps(a, b, sums[i]);
      PLIMSOLL_KEEP(sums[i]);
    }
  }
}

__attribute__((target("avx512f"))) void run_avx512(std::int64_t rounds) {
  __m512 a = _mm512_set1_ps(1e-9F), b = _mm512_set1_ps(0.5F);
  PLIMSOLL_KEEP_WIDE(a);
  PLIMSOLL_KEEP_WIDE(b);
  __m512 sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_fmadd_ps(a, b, sums[i]);
      PLIMSOLL_KEEP_WIDE(sums[i]);
    }
  }
}

__attribute__((target("avx512f,avx512bf16"))) void run_avx512_bf16(std::int64_t rounds) {
  __m512 bits = _mm512_set1_ps(0.5F);
  PLIMSOLL_KEEP_WIDE(bits);
  const auto a = (__m512bh)bits, b = (__m512bh)bits;
  __m512 sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], a, b);
      PLIMSOLL_KEEP_WIDE(sums[i]);
    }
  }
}

// Numbers 1 for tiles, on whole cache lines. Zeros would be multiplied a sixth faster.
constexpr std::int64_t kTileNumbers = 512;
struct Ones {
  explicit Ones(std::int64_t count) : numbers(static_cast<std::size_t>(count) + 32, 0x3F80) {}
  const std::uint16_t* begin() const {
    return numbers.data() + (64 - reinterpret_cast<std::uintptr_t>(numbers.data()) % 64) / sizeof(std::uint16_t);
  }
  std::vector<std::uint16_t> numbers;
};

// Makes all eight registers tiles of 16 rows of 64 bytes; the operands' hold 1, the sums' 0.
PLIMSOLL_AMX void set_tiles() {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = 16;
    shapes.row_bytes[i] = 64;
  }
  load_tile_shapes(shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  static const Ones ones(kTileNumbers);
  _tile_loadd(4, ones.begin(), 64);
  _tile_loadd(5, ones.begin(), 64);
  _tile_loadd(6, ones.begin(), 64);
  _tile_loadd(7, ones.begin(), 64);
}

// Uses two by two tiles of sums, as in a product.
PLIMSOLL_AMX void run_amx(std::int64_t rounds) {
  set_tiles();
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

// The same with the four operands' tiles loaded in every round, from memory of `bytes`, a power of two.
template <std::int64_t bytes>
PLIMSOLL_AMX void run_amx_from_memory(std::int64_t rounds) {
  constexpr std::int64_t kTileBytes = kTileNumbers * sizeof(std::uint16_t);
  static const Ones memory(bytes / static_cast<std::int64_t>(sizeof(std::uint16_t)));
  const char* const tiles = reinterpret_cast<const char*>(memory.begin());
  set_tiles();
  std::int64_t at = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_loadd(4, tiles + at, 64);
    _tile_loadd(6, tiles + at + kTileBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, tiles + at + 2 * kTileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, tiles + at + 3 * kTileBytes, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    at = (at + 4 * kTileBytes) % bytes;
  }
  _tile_release();
}

#endif

}  // namespace

std::vector<MatrixUnit> matrix_units(DType dtype) {
  std::vector<MatrixUnit> units;
#if defined(__x86_64__)
  constexpr double kFlop = 2.0 * kSums;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back({"AVX2", kFlop * 8, run_avx2});
  if (__builtin_cpu_supports("avx512f")) units.push_back({"AVX-512", kFlop * 16, run_avx512});
  if (dtype == DType::kBF16) {
    if (__builtin_cpu_supports("avx512bf16")) units.push_back({"AVX512_BF16", kFlop * 32, run_avx512_bf16});
    if (multiplies_tiles()) {
      constexpr double kTileFlop = 4 * 2.0 * 16 * 16 * 32;
      units.push_back({"AMX", kTileFlop, run_amx});
      units.push_back({"AMX, tiles from 16 KiB", kTileFlop, run_amx_from_memory<16 << 10>});
      units.push_back({"AMX, tiles from 1 MiB", kTileFlop, run_amx_from_memory<1 << 20>});
      units.push_back({"AMX, tiles from 32 MiB", kTileFlop, run_amx_from_memory<32 << 20>});
    }
  }
#endif
  return units;
}

double matrix_rate(const MatrixUnit& unit, int threads, double seconds) {
  // Other programs disturb one thread's own CPU time less.
  const auto now = [threads] {
    timespec time{};
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  // The number of rounds for about `seconds`, estimated from one thread's time.
  constexpr std::int64_t kProbe = 100'000;
  const double begin = now();
  unit.run(kProbe);
  const double probe = std::max(now() - begin, 1e-6);
  const auto rounds = static_cast<std::int64_t>(static_cast<double>(kProbe) * std::max(1.0, seconds / probe));
  double slowest = 0;
#pragma omp parallel num_threads(threads) reduction(max : slowest)
  {
#pragma omp barrier
    const double start = now();
    unit.run(rounds);
    slowest = now() - start;
  }
  return 1e-9 * unit.flop_per_round * static_cast<double>(rounds) * threads / slowest;
}

double best_matrix_rate(DType dtype, int threads) {
  double best = 0;
  for (const MatrixUnit& unit : matrix_units(dtype)) best = std::max(best, matrix_rate(unit, threads));
  return best;
}

}  // namespace plimsoll
