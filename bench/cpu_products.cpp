// Compares matrix products of the CPU backend with one oneDNN matmul of exactly the real rows and packed weights, the
// best that the library can do, and with the processor's own matrix rate (matrix_rate.h), measured in turn. Columns:
// GFLOP/s of the product as a kernel runs it (including packing and all parts of the rows), of the plain matmul, their
// ratio, and both over the processor's rate. The last line sums up the base model's products over 2,836 rows (four full
// pages), each as often as a layer has it, and compares with the bar.
//
//   plimsoll_cpu_products [threads] [repetitions] [bf16]
#include <fmt/format.h>
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/dnnl_matmul.h"
#include "backend/cpu/tile_product_bf16.h"
#include "graph/build.h"
#include "matrix_rate.h"

namespace plimsoll {
namespace {

// With one thread, uses its own CPU time, which other programs disturb less.
double seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Times the second of two runs, so that both sides find the caches as they left them.
double time_of(const std::function<void()>& body, int threads) {
  body();
  const double start = seconds(threads);
  body();
  return seconds(threads) - start;
}

float* floats(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.bytes().data()); }

// Returns memory for `count` floats in (-0.5, 0.5).
std::unique_ptr<DeviceMemory> noise(CpuBackend& backend, std::int64_t count) {
  std::unique_ptr<DeviceMemory> memory = backend.allocate(static_cast<std::size_t>(count) * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    floats(*memory)[i] = static_cast<float>(static_cast<std::uint32_t>(i) * 2654435761U >> 8) * 0x1.0p-24F - 0.5F;
  }
  return memory;
}

struct Row {
  std::string name;
  std::int64_t rows, inner, columns;
  std::function<void()> ours, library;
  double ours_seconds = 1e9, library_seconds = 1e9;
};

void run(int threads, int repetitions, DType dtype) {
  CpuBackend backend(threads);
  omp_set_num_threads(threads);
  MatmulCache cache;
  constexpr std::int64_t kCapacity = 2836, kWidest = 3072;
  const auto x = noise(backend, kCapacity * kWidest), y = noise(backend, kCapacity * kWidest);
  const auto weight = noise(backend, kWidest * kWidest), bias = noise(backend, kWidest);
  const auto dweight = noise(backend, kWidest * kWidest);
  const auto scratch = backend.allocate(128 << 20);
  std::vector<std::unique_ptr<Kernel>> kernels;
  fmt::print("{} threads, best of {}\n{:<20}{:>6}{:>12}{:>10}{:>10}{:>8}{:>11}{:>8}\n", backend.threads(), repetitions,
             "product", "rows", "shape", "ours", "oneDNN", "ratio", "ours/rate", "oneDNN");
  // A layer of the base model has four products of 768 x 768 (query, key, value, the attention's output) and one each way
  // in its feed-forward part.
  const auto times_in_layer = [](std::int64_t inner, std::int64_t columns) {
    return inner == 768 && columns == 768 ? 4 : inner * columns == 768 * 3072 ? 1 : 0;
  };
  double rate = 0, layer_flop = 0, layer_ours = 0, layer_library = 0;

  for (const std::array<std::int64_t, 2>& widths :
       std::vector<std::array<std::int64_t, 2>>{{768, 768}, {768, 3072}, {3072, 768}, {192, 768}}) {
    const std::int64_t k = widths[0], m = widths[1];
    std::vector<Row> table;
    for (const std::int32_t rows : {96, 480, 709, 1418, 2836}) {
      Graph graph;
      const ValueId x_value = graph.add_input("x", {dtype, {kCapacity, k}});
      const ValueId dy_value = graph.add_input("dy", {dtype, {kCapacity, m}});
      const ValueId weight_value = graph.add_parameter("weight", {dtype, {m, k}});
      const ValueId bias_value = graph.add_parameter("bias", {DType::kF32, {m}});
      const ValueId rows_value = graph.add_input("rows", {DType::kI32, {1}});
      linear(graph, "linear", x_value, weight_value, bias_value, rows_value);
      graph.add_node(
          {.op = Op::kLinearInputGrad, .name = "dx", .inputs = {dy_value, weight_value}, .row_count = rows_value});
      graph.add_node(
          {.op = Op::kLinearWeightGrad, .name = "dw", .inputs = {dy_value, x_value}, .row_count = rows_value});
      const TensorView x_view({dtype, {kCapacity, k}}, floats(*x)), dy_view({dtype, {kCapacity, m}}, floats(*y));
      const TensorView weight_view({dtype, {m, k}}, floats(*weight)), bias_view({DType::kF32, {m}}, floats(*bias));
      const TensorView dw_view({DType::kF32, {m, k}}, floats(*dweight));
      const auto add = [&](const Node& node, std::vector<TensorView> inputs, TensorView output, const Matmul& library,
                           const float* a, const float* b, float* c) {
        kernels.push_back(backend.prepare(graph, node));
        check(kernels.back()->scratch_bytes() <= scratch->bytes().size(), "the benchmark's scratch is large enough");
        const Kernel* const kernel = kernels.back().get();
        table.push_back(
            {std::string(op_name(node.op)), rows, k, m,
             [=, &scratch] {
               kernel->run(
                   {.inputs = inputs, .outputs = {&output, 1}, .scratch = scratch->bytes(), .row_count = &rows});
             },
             [=, &library, &scratch] { library.run(a, b, nullptr, c, scratch->bytes().data()); }});
      };
      const auto packed = [&](std::int64_t inner, std::int64_t columns) {
        const bool packs = cache.packing(inner, columns, false, dtype) != nullptr;
        return MatmulShape{
            .rows = rows, .columns = columns, .inner = inner, .operands = dtype, .result = dtype, .packed_b = packs};
      };
      // The speed does not depend on values, so the plain weight's bytes are used as a packed one.
      add(graph.node(0), {x_view, weight_view, bias_view}, dy_view, cache.matmul(packed(k, m)), floats(*x),
          floats(*weight), floats(*y));
      add(graph.node(1), {dy_view, weight_view}, x_view, cache.matmul(packed(m, k)), floats(*y), floats(*weight),
          floats(*x));
      add(graph.node(2), {dy_view, x_view}, dw_view,
          cache.matmul({.rows = m, .columns = k, .inner = rows, .operands = dtype, .transposed_a = true}), floats(*y),
          floats(*x), floats(*dweight));
    }
    for (int i = 0; i < repetitions; ++i) {
      rate = std::max(rate, best_matrix_rate(dtype, threads));
      for (Row& row : table) {
        row.ours_seconds = std::min(row.ours_seconds, time_of(row.ours, threads));
        row.library_seconds = std::min(row.library_seconds, time_of(row.library, threads));
      }
    }
    for (const Row& row : table) {
      const double flop = 2e-9 * static_cast<double>(row.rows * row.inner * row.columns);
      const double ours = flop / row.ours_seconds, library = flop / row.library_seconds;
      fmt::print("{:<20}{:>6}{:>12}{:>10.1f}{:>10.1f}{:>8.3f}{:>11.2f}{:>8.2f}\n", row.name, row.rows,
                 fmt::format("{}x{}", row.inner, row.columns), ours, library, ours / library, ours / rate,
                 library / rate);
      if (row.rows != kCapacity) continue;
      const int times = times_in_layer(row.inner, row.columns);
      layer_flop += times * flop;
      layer_ours += times * row.ours_seconds;
      layer_library += times * row.library_seconds;
    }
  }
  for (const MatrixUnit& unit : matrix_units(dtype)) {
    fmt::print("{}: {:.1f} GFLOP/s in registers\n", unit.name, matrix_rate(unit, threads));
  }
  const bool tiles = multiplies_tiles();
  const double bar = dtype == DType::kF32 ? 0.85 : tiles ? 0.70 : 0;
  fmt::print("linear products of a layer, forward and gradients: {:.1f} GFLOP/s of {:.1f}, {:.2f} of the rate (oneDNN alone "
             "{:.2f}); {}\n",
             layer_flop / layer_ours, rate, layer_flop / layer_ours / rate, layer_flop / layer_library / rate,
             bar == 0 ? "no bar for bf16 without AMX"
                      : fmt::format("bar {:.2f}: {}", bar, layer_flop / layer_ours / rate >= bar ? "holds" : "misses"));
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 15,
                argc > 3 && std::string_view(argv[3]) == "bf16" ? plimsoll::DType::kBF16 : plimsoll::DType::kF32);
}
