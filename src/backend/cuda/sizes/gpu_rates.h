// The figures of GPUs that the model of a step's time assumes. Whoever changes one adds the measurement it was read
// from. Two GPUs were measured, an H200 and an H100 (docs/speed.md); the others' figures come from their data sheets.
//
// Published: processors, clock, memory (NVIDIA's data sheets and white papers of H200, H100, A100, L4, and of the RTX
// 4090, dense rates with FP32 sums). Assumed: the share of the published rates that a good kernel reaches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace plimsoll::cuda {

struct GpuRates {
  std::string_view name;  // as --gpu takes it
  std::string_view full_name;
  double half_flops = 0;     // products of halves that cuBLASLt reaches, per second
  double float_flops = 0;    // the same for F32, which is not rounded to TF32
  double memory_bytes = 0;   // device memory, per second
  double instructions = 0;   // of threads, per second: processors x 4 schedulers x 32 threads x clock
  std::size_t capacity = 0;  // device memory, bytes
  bool warpgroups = false;   // Hopper's products, in which attention has kernels of its own
};

// H200: torch.matmul of 8192^3 in BF16 reached 661 to 701 TFLOP/s, the step's largest products 640 to 750; the kernels
// that read most, and write nothing, 3.7 to 3.8 TB/s. H100: 721 to 755 TFLOP/s; 2.6 TB/s. The other GPUs, and F32 on
// all of them, are given four fifths of the published rate of products.
inline constexpr std::array<GpuRates, 5> kGpuRates = {{
    {"h200", "NVIDIA H200", 690e12, 54e12, 3.7e12, 132 * 4 * 32 * 1.98e9, 141 * std::size_t{1'000'000'000}, true},
    {"h100", "NVIDIA H100 SXM", 740e12, 54e12, 2.6e12, 132 * 4 * 32 * 1.98e9, 80 * std::size_t{1'000'000'000}, true},
    {"a100", "NVIDIA A100 80GB", 250e12, 15.6e12, 2.0e12, 108 * 4 * 32 * 1.41e9, 80 * std::size_t{1'000'000'000}},
    {"l4", "NVIDIA L4", 97e12, 24e12, 0.3e12, 58 * 4 * 32 * 2.04e9, 24 * std::size_t{1'000'000'000}},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 132e12, 66e12, 1.008e12, 128 * 4 * 32 * 2.52e9,
     24 * std::size_t{1'000'000'000}},
}};

// The time from the end of one kernel of a recorded graph to the beginning of the next, if they do not overlap. H200: a
// recorded step of 26.6 ms, less the 25.2 ms of its kernels alone, over 450 launches.
inline constexpr double kSecondsBetweenKernels = 3.2e-6;
// The share of issue slots that a kernel fills if its instructions limit it, by CountedWork: the rest goes to waits for
// shared memory, for device memory and at barriers, and to scores of partial tiles. H200: 9.4 instructions for each of
// 96.5 million scores in 119 us, 22.3 in 205 us, 40.5 in 518 us; by warpgroups 17.3 in 161 us and 32.1 in 321 us; of
// 34.8 million values, 19.4 in 36 us.
inline constexpr std::array<double, 8> kIssueShares = {1, 0.23, 0.31, 0.23, 0.31, 0.29, 0.55, 0.55};

}  // namespace plimsoll::cuda
