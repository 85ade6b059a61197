// Times the blocked products of bfloat16 (backend/cpu/blocked_product.h) with several sizes of blocks, by the
// fastest micro-kernel of this processor: the linear products of a layer of the base model over 709 rows and 2,836 (a
// full page, and four), forward and both gradients, each as often as a layer has it, over the processor's own rate
// (matrix_rate.h). All sizes are measured in turn. "panels" is the rate of the micro-kernel alone, on panels that lie
// in the first cache. "AMX, alone" neither copies rows of a, or transposes them, nor stores results.
//
//   plimsoll_blocked_products [threads] [repetitions]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
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

// Multiplies and does nothing besides: rows of a are not copied, and results not stored. It shows what products would
// reach if memory's work took no time.
void multiply_alone(const std::uint16_t* a, std::int64_t a_stride, const std::uint16_t* b, std::int64_t steps, float* c,
                    bool adds, const Besides&) {
  tile_micro_kernel()->multiply(a, a_stride, b, steps, c, adds, {});
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
    for (int i = 0; i < kRounds; ++i) kernel.multiply(a, stride, b, steps, c, false, {});
    slowest = now() - start;
    kernel.end();
  }
  return 1e-9 * threads * kRounds * 2.0 * kMicroBlock * static_cast<double>(inner) / slowest;
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
    for (const std::int64_t inner : {384, 768}) {
      for (const auto& [rows, columns] : std::vector<std::array<std::int64_t, 2>>{
               {192, 512}, {192, 768}, {256, 512}, {256, 768}, {384, 384}, {384, 512}, {384, 768}}) {
        variants.push_back({kernel, {.inner = inner, .rows = rows, .columns = columns}});
      }
    }
  }
  if (variants.empty()) {
    fmt::print("this processor has no instructions for products of bfloat16\n");
    return;
  }
  constexpr std::int64_t kRows[2] = {709, kMostRows};
  double rate = 0;
  for (int i = 0; i < repetitions; ++i) {
    rate = std::max(rate, best_matrix_rate(DType::kBF16, threads));
    for (Variant& variant : variants) {
      variant.panels = std::max(
          variant.panels, rate_of(*variant.kernel, variant.blocking.inner, threads, numbers, result->bytes().data()));
      for (int which = 0; which < 2; ++which) {
        variant.seconds[which] =
            std::min(variant.seconds[which], time_of(variant, kRows[which], threads, operands->bytes().data(),
                                                     result->bytes().data(), scratch->bytes().data(), kScratch));
      }
    }
  }
  fmt::print("{} threads, best of {}; the processor's rate is {:.0f} GFLOP/s\n", threads, repetitions, rate);
  fmt::print("{:<12} {:>6} {:>6} {:>8} {:>8} {:>9} {:>10}\n", "kernel", "inner", "rows", "columns", "panels",
             "709 rows", "2836 rows");
  for (const Variant& variant : variants) {
    const Blocking& blocking = variant.blocking;
    fmt::print("{:<12} {:>6} {:>6} {:>8} {:>8.2f} {:>9.2f} {:>10.2f}\n", variant.kernel->name, blocking.inner,
               blocking.rows, blocking.columns, variant.panels / rate,
               1e-9 * flop_of_layer(709) / variant.seconds[0] / rate,
               1e-9 * flop_of_layer(kMostRows) / variant.seconds[1] / rate);
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 3);
  return 0;
}
