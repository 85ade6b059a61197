// Compares matrix products of the CPU backend with one oneDNN matmul of exactly the real rows and packed weights, the
// best that the library can do, and with the processor's own matrix rate (matrix_rate.h), measured in turn. Columns:
// GFLOP/s of the product as a kernel runs it (including packing and all parts of the rows), of the plain matmul, their
// ratio, and both over the processor's rate. The last lines sum up the base model's products over 709 rows (one full
// page) and 2,836 (four), each as often as a layer has it, and compare the second with the bar. A BLAS library, given
// by its file, runs the same F32 products by cblas_sgemm and is summed up likewise.
//
//   plimsoll_cpu_products [threads] [repetitions] [fp32 | bf16] [BLAS library]
#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
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

using Sgemm = void (*)(int order, int transposed_a, int transposed_b, int rows, int columns, int inner, float alpha,
                       const float* a, int row_stride_a, const float* b, int row_stride_b, float beta, float* c,
                       int row_stride_c);

// cblas_sgemm of a library that stays loaded; nullptr where there is none.
Sgemm load_blas(const char* file) {
  void* const library = file == nullptr ? nullptr : dlopen(file, RTLD_NOW);
  if (file != nullptr && library == nullptr) fmt::print(stderr, "{}\n", dlerror());
  return library == nullptr ? nullptr : reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

// Who multiplies.
enum Way : std::size_t { kOurs, kOneDnn, kBlas, kWays };

struct Row {
  std::string name;
  std::int64_t rows, inner, columns;
  std::array<std::function<void()>, kWays> run{};
  std::array<double, kWays> seconds{1e9, 1e9, 1e9};
};

// The products of a layer over one number of rows, each as often as the layer has it.
struct LayerSum {
  double flop = 0;
  std::array<double, kWays> seconds{};

  void add(const Row& row, int times, double flop_of_row) {
    flop += times * flop_of_row;
    for (std::size_t way = 0; way < kWays; ++way) seconds[way] += times * row.seconds[way];
  }
  double share(Way way, double rate) const { return flop / seconds[way] / rate; }
};

void run(int threads, int repetitions, DType dtype, Sgemm blas) {
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
  // A layer of the base model has four products of 768 x 768 (query, key, value, the attention's output) and one each
  // way in its feed-forward part.
  const auto times_in_layer = [](std::int64_t inner, std::int64_t columns) {
    return inner == 768 && columns == 768 ? 4 : inner * columns == 768 * 3072 ? 1 : 0;
  };
  double rate = 0;
  std::map<std::int64_t, LayerSum> layers{{709, {}}, {kCapacity, {}}};

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
      const auto add = [&](const Node& node, std::vector<TensorView> inputs, TensorView output,
                           const std::shared_ptr<const Matmul>& library, const float* a, const float* b, float* c,
                           std::function<void()> by_blas) {
        kernels.push_back(backend.prepare(graph, node));
        check(kernels.back()->scratch_bytes() <= scratch->bytes().size(), "the benchmark's scratch is large enough");
        const Kernel* const kernel = kernels.back().get();
        table.push_back({std::string(op_name(node.op)), rows, k, m});
        table.back().run = {
            [=, &scratch] {
              kernel->run({.inputs = inputs, .outputs = {&output, 1}, .scratch = scratch->bytes(), .row_count = &rows});
            },
            [=, &scratch] { library->run(a, b, nullptr, c, scratch->bytes().data()); },
            blas == nullptr ? nullptr : std::move(by_blas)};
      };
      constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;  // of CBLAS
      const int n = rows, in = static_cast<int>(k), out = static_cast<int>(m);
      const auto packed = [&](std::int64_t inner, std::int64_t columns) {
        const bool packs = cache.packing(inner, columns, false, dtype) != nullptr;
        return MatmulShape{
            .rows = rows, .columns = columns, .inner = inner, .operands = dtype, .result = dtype, .packed_b = packs};
      };
      // The speed does not depend on values, so the plain weight's bytes are used as a packed one.
      add(graph.node(0), {x_view, weight_view, bias_view}, dy_view, cache.matmul(packed(k, m)), floats(*x),
          floats(*weight), floats(*y), [=, &x, &y, &weight] {
            blas(kRowMajor, kPlain, kTransposed, n, out, in, 1, floats(*x), in, floats(*weight), in, 0, floats(*y),
                 out);
          });
      add(graph.node(1), {dy_view, weight_view}, x_view, cache.matmul(packed(m, k)), floats(*y), floats(*weight),
          floats(*x), [=, &x, &y, &weight] {
            blas(kRowMajor, kPlain, kPlain, n, in, out, 1, floats(*y), out, floats(*weight), in, 0, floats(*x), in);
          });
      add(graph.node(2), {dy_view, x_view}, dw_view,
          cache.matmul({.rows = m, .columns = k, .inner = rows, .operands = dtype, .transposed_a = true}), floats(*y),
          floats(*x), floats(*dweight), [=, &x, &y, &dweight] {
            blas(kRowMajor, kTransposed, kPlain, out, in, n, 1, floats(*y), out, floats(*x), in, 0, floats(*dweight),
                 in);
          });
    }
    for (int i = 0; i < repetitions; ++i) {
      rate = std::max(rate, best_matrix_rate(dtype, threads));
      for (Row& row : table) {
        for (std::size_t way = 0; way < kWays; ++way) {
          if (row.run[way]) row.seconds[way] = std::min(row.seconds[way], time_of(row.run[way], threads));
        }
      }
    }
    for (const Row& row : table) {
      const double flop = 2e-9 * static_cast<double>(row.rows * row.inner * row.columns);
      const double ours = flop / row.seconds[kOurs], library = flop / row.seconds[kOneDnn];
      fmt::print("{:<20}{:>6}{:>12}{:>10.1f}{:>10.1f}{:>8.3f}{:>11.2f}{:>8.2f}\n", row.name, row.rows,
                 fmt::format("{}x{}", row.inner, row.columns), ours, library, ours / library, ours / rate,
                 library / rate);
      const auto layer = layers.find(row.rows);
      if (layer != layers.end()) layer->second.add(row, times_in_layer(row.inner, row.columns), flop);
    }
  }
  for (const MatrixUnit& unit : matrix_units(dtype)) {
    fmt::print("the processor's rate, {}: {:.1f} GFLOP/s\n", unit.name, matrix_rate(unit, threads));
  }
  const double bar = dtype == DType::kF32 ? 0.85 : multiplies_tiles() ? 0.70 : 0;
  for (const auto& [rows, layer] : layers) {
    fmt::print(
        "linear products of a layer over {} rows, forward and gradients: {:.1f} GFLOP/s of {:.1f}, {:.2f} of the "
        "rate (oneDNN alone {:.2f}{})",
        rows, layer.flop / layer.seconds[kOurs], rate, layer.share(kOurs, rate), layer.share(kOneDnn, rate),
        blas == nullptr ? "" : fmt::format(", the BLAS library {:.2f}", layer.share(kBlas, rate)));
    if (rows == kCapacity && bar > 0) {
      fmt::print("; bar {:.2f}: {}", bar, layer.share(kOurs, rate) >= bar ? "holds" : "misses");
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  const bool bf16 = argc > 3 && std::string_view(argv[3]) == "bf16";
  plimsoll::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 15,
                bf16 ? plimsoll::DType::kBF16 : plimsoll::DType::kF32,
                bf16 ? nullptr : plimsoll::load_blas(argc > 4 ? argv[4] : nullptr));
}
