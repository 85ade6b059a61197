// Times the blocked products of bfloat16 (backend/cpu/blocked_product.h) with several sizes of blocks, by the
// fastest micro-kernel of this processor: the linear products of a layer of the base model over 709 rows and 2,836 (a
// full page, and four), forward and both gradients, each as often as a layer has it, over the processor's own rate
// (matrix_rate.h). All sizes are measured in turn. "panels" is the rate of the micro-kernel alone, on a panel of
// each operand, a part long, again and again. "AMX, alone" neither fetches rows of a, or transposes them, nor stores
// results. A second table says what a step of the micro-kernel takes, and what memory's work adds to it.
//
//   plimsoll_blocked_products [threads] [repetitions]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/blocked_product.h"
#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "matrix_rate.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostRows = 2836, kWidest = 3072;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Multiplies and does nothing besides: rows of a are not fetched, and results not stored.
void multiply_alone(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps, float* c,
                    const Besides&) {
  tile_micro_kernel()->multiply(a, a_stride, b, steps, c, {});
}

struct Variant {
  const MicroKernel* kernel;
  Blocking blocking;
  bool is_alone() const { return kernel->multiply == multiply_alone; }
  double panels = 0;               // GFLOP/s
  double seconds[2] = {1e9, 1e9};  // over 709 rows, and 2,836
};

// Runs the products of a layer over `rows`, and returns their seconds.
double time_of(const Variant& variant, std::int64_t rows, int threads, const std::byte* from, std::byte* to,
               std::byte* scratch, std::size_t scratch_bytes) {
  double sum = 0;
  for (const auto& [inner, columns, times] :
       std::vector<std::array<std::int64_t, 3>>{{768, 768, 4}, {768, 3072, 1}, {3072, 768, 1}}) {
    const MatmulShape forward{.rows = rows,
                              .columns = columns,
                              .inner = inner,
                              .operands = DType::kBF16,
                              .result = DType::kBF16,
                              .transposed_b = true};
    const MatmulShape input{
        .rows = rows, .columns = inner, .inner = columns, .operands = DType::kBF16, .result = DType::kBF16};
    const MatmulShape weight{.rows = columns,
                             .columns = inner,
                             .inner = rows,
                             .operands = DType::kBF16,
                             .transposed_a = !variant.is_alone()};
    for (const MatmulShape& shape : {forward, input, weight}) {
      const BlockedProduct product(*variant.kernel, shape, threads, variant.blocking);
      check(product.scratch_bytes() <= scratch_bytes, "the benchmark's scratch is large enough");
      for (int i = 0; i < 2; ++i) {  // the second finds the caches as it left them
        const double start = now();
        product.run(shape, from, from + bytes_of(DType::kBF16, kMostRows * kWidest), nullptr, to, scratch);
        if (i == 1) sum += static_cast<double>(times) * (now() - start);
      }
    }
  }
  return sum;
}

double flop_of_layer(std::int64_t rows) {
  return 3 * 2.0 * static_cast<double>(rows) * (4 * 768 * 768 + 2 * 768 * 3072);
}

// The rate of the micro-kernel alone, GFLOP/s of `threads`.
double rate_of(const MicroKernel& kernel, std::int64_t inner, int threads, const std::uint16_t* numbers,
               std::byte* sums) {
  const std::int64_t steps = inner / kPanelStep;
  constexpr int kRounds = 2'000;
  double slowest = 0;
#pragma omp parallel num_threads(threads) reduction(max : slowest)
  {
    const std::int64_t thread = omp_get_thread_num(), stride = inner + kPanelStep;  // as products have it
    const std::uint16_t* const a = numbers + 2 * thread * kPanelWidth * stride;
    const std::uint16_t* const b = a + kPanelWidth * stride;
    float* const c = reinterpret_cast<float*>(sums) + thread * kMicroBlock;
    kernel.begin();
#pragma omp barrier
    const double start = now();
    for (int i = 0; i < kRounds; ++i) kernel.multiply(a, stride, b, steps, c, {});
    slowest = now() - start;
    kernel.end();
  }
  return 1e-9 * threads * kRounds * 2.0 * kMicroBlock * static_cast<double>(inner) / slowest;
}

// Says what is done besides multiplying a matrix of 768 columns by panels of 24 steps.
struct Work {
  const char* what;
  std::int64_t b_panels;  // 48 KiB each
  bool copies = false;    // each 32 rows of a, from beyond the second cache, fetched before
  bool stores = false;    // as halves
  bool keeps = false;     // adds to sums of a block of c
  double seconds = 1e9;   // a step
};

// Returns the seconds of a step, of one thread, in the order of a product.
double time_of_step(const MicroKernel& kernel, const Work& work, const std::uint16_t* numbers, std::byte* result) {
  constexpr std::int64_t kRowPanels = 48, kSteps = 24, kInner = kSteps * kPanelStep, kStride = kInner + kPanelStep;
  constexpr std::int64_t kRowBytes = kInner * 2, kPanels = 24;
  const std::uint16_t* const b = numbers + kRowPanels * kPanelWidth * kInner;
  auto* const panel = reinterpret_cast<std::uint16_t*>(result);
  auto* const sums = reinterpret_cast<float*>(result + kMiB);
  float* const kept = sums + kMicroBlock;
  auto* const to = reinterpret_cast<std::byte*>(kept + kRowPanels / 2 * kPanels * kMicroBlock);
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {  // the second finds the caches as the first left them
    BlockStore store;
    kernel.begin();
    const double start = now();
    for (std::int64_t i = 0; i < kRowPanels; ++i) {
      const std::uint16_t* const rows = numbers + i * kPanelWidth * kInner;
      if (work.copies || i == 0) {
        for (std::int64_t at = 0; at < kPanelWidth * kInner; at += kPanelStep) {  // a line each, as products copy
          std::memcpy(panel + at / kInner * kStride + at % kInner, rows + at, 2 * kPanelStep);
        }
      }
      for (std::int64_t j = 0; j < kPanels; ++j) {
        const std::int64_t b_panel = (i * kPanels + j) % work.b_panels;
        NextLines next;
        if (work.copies && j < kPanels * 2 / 3) {
          next = {reinterpret_cast<const std::byte*>(rows + kPanelWidth * kInner) + 2 * j * kRowBytes, kRowBytes, 2,
                  kSteps};
        }
        kernel.multiply(panel, kStride, b + b_panel * kPanelWidth * kInner, kSteps, sums, {next, store});
        if (work.stores) {
          store = {.from = sums,
                   .to = to + i * kPanelWidth * kRowBytes + j * kPanelWidth * 2,
                   .row_bytes = kRowBytes,
                   .rows = kPanelWidth,
                   .columns = kPanelWidth,
                   .in_halves = true};
        } else if (work.keeps) {
          store = {.from = sums,
                   .to = kept + (i % (kRowPanels / 2) * kPanels + j) * kMicroBlock,
                   .row_bytes = kPanelWidth * 4,
                   .rows = kPanelWidth,
                   .columns = kPanelWidth,
                   .adds = true,
                   .is_read_soon = true};
        }
      }
    }
    seconds = now() - start;
    kernel.end();
  }
  return seconds / static_cast<double>(kRowPanels * kPanels * kSteps);
}

void run(int threads, int repetitions) {
  CpuBackend backend(threads);
  omp_set_num_threads(threads);
  constexpr std::size_t kScratch = 256 << 20;
  const auto operands = backend.allocate(2 * kMostRows * kWidest * 2), result = backend.allocate(kWidest * kWidest * 4);
  const auto scratch = backend.allocate(kScratch);
  auto* const numbers = reinterpret_cast<std::uint16_t*>(operands->bytes().data());
  for (std::int64_t i = 0; i < kMostRows * kWidest * 2; ++i) {
    numbers[i] = static_cast<std::uint16_t>(0x3C00 + i * 2654435761 % 0x200);
  }
  std::vector<Variant> variants;
  const MicroKernel* const tiles = tile_micro_kernel();
  MicroKernel alone = tiles == nullptr ? reference_micro_kernel() : *tiles;
  alone.name = "AMX, alone";
  alone.multiply = multiply_alone;
  if (const MicroKernel* const kernel = tiles == nullptr ? vector_micro_kernel() : tiles; kernel != nullptr) {
    variants.push_back({kernel, kernel->blocking});
    if (kernel == tiles) variants.push_back({&alone, kernel->blocking});
    for (const std::int64_t part : {384, 512, 768}) {
      for (const std::int64_t rows : {384, 768}) {
        for (const std::int64_t columns : {512, 768, 1024}) {
          variants.push_back(
              {kernel, {.inner = 1024, .part = part, .rows = rows, .columns = columns, .block = 768 * 768}});
        }
      }
    }
  }
  if (variants.empty()) {
    fmt::print("this processor has no instructions for products of bfloat16\n");
    return;
  }
  constexpr std::int64_t kRows[2] = {709, kMostRows};
  std::vector<Work> steps{{"panels of b from the second cache", 24},
                          {"and rows of a copied", 24, true},
                          {"and results stored as halves", 24, true, true},
                          {"and instead added to sums that are kept", 24, true, false, true},
                          {"panels of b from beyond the second cache", 96}};
  double rate = 0, rate_of_one = 0;
  for (int i = 0; i < repetitions; ++i) {
    rate = std::max(rate, best_matrix_rate(DType::kBF16, threads));
    rate_of_one = std::max(rate_of_one, best_matrix_rate(DType::kBF16, 1));
    for (Work& work : steps) {
      work.seconds =
          std::min(work.seconds, time_of_step(*variants.front().kernel, work, numbers, result->bytes().data()));
    }
    for (Variant& variant : variants) {
      variant.panels = std::max(
          variant.panels, rate_of(*variant.kernel, variant.blocking.part, threads, numbers, result->bytes().data()));
      for (int which = 0; which < 2; ++which) {
        variant.seconds[which] =
            std::min(variant.seconds[which], time_of(variant, kRows[which], threads, operands->bytes().data(),
                                                     result->bytes().data(), scratch->bytes().data(), kScratch));
      }
    }
  }
  fmt::print("{} threads, best of {}; the processor's rate is {:.0f} GFLOP/s\n", threads, repetitions, rate);
  fmt::print("{:<12} {:>6} {:>6} {:>6} {:>8} {:>8} {:>9} {:>10}\n", "kernel", "inner", "part", "rows", "columns",
             "panels", "709 rows", "2836 rows");
  for (const Variant& variant : variants) {
    const Blocking& blocking = variant.blocking;
    fmt::print("{:<12} {:>6} {:>6} {:>6} {:>8} {:>8.2f} {:>9.2f} {:>10.2f}\n", variant.kernel->name, blocking.inner,
               blocking.part, blocking.rows, blocking.columns, variant.panels / rate,
               1e-9 * flop_of_layer(709) / variant.seconds[0] / rate,
               1e-9 * flop_of_layer(kMostRows) / variant.seconds[1] / rate);
  }
  const double fastest = 1e-9 * 2.0 * kMicroBlock * kPanelStep / rate_of_one;
  fmt::print("\none thread, a step of {}: ns, and the rate's share\n", variants.front().kernel->name);
  fmt::print("{:<42} {:>6.1f}\n", "the processor's rate", 1e9 * fastest);
  for (const Work& work : steps) {
    fmt::print("{:<42} {:>6.1f} {:>6.2f}\n", work.what, 1e9 * work.seconds, fastest / work.seconds);
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 3);
  return 0;
}
