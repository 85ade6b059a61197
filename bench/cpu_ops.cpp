// Benchmarks the CPU backend's ops that are not products, with the base model's shapes, in F32 and BF16.
//
//   plimsoll_cpu_ops [--benchmark_filter=gelu] ...
//
// "bytes_per_second" counts each of an op's inputs and outputs once. "of_floor" is the time that these bytes take in a
// plain loop over large arrays (two read, one written), which is measured first, over the op's time (printed with "/s",
// as Google Benchmark prints every rate). Data that is still cached from the previous repetition can make it larger
// than 1.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "graph/build.h"
#include "graph/update_form.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kRows = 1418;  // two pages of 709

// Measures the bytes per second of c[i] = a[i] + b[i] over arrays that exceed every cache.
double plain_rate() {
  constexpr std::int64_t kCount = std::int64_t{16} << 20;
  std::vector<float> a(kCount, 1), b(kCount, 2), c(kCount, 0);
  double best = 1e9;
  for (int r = 0; r < 6; ++r) {
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < kCount; ++i) {
      c[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(i)] + b[static_cast<std::size_t>(i)];
    }
    benchmark::DoNotOptimize(c.data());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 3.0 * sizeof(float) * static_cast<double>(kCount) / best;
}

void fill(const Value& value, const TensorView& view) {
  std::uint32_t state = 1;
  const auto number = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) * 0x1.0p-23F + (value.name == "v" ? 0.0F : -1.0F);
  };
  if (view.dtype() == DType::kF32) {
    for (float& x : view.span<float>()) x = number();
  } else if (view.dtype() == DType::kBF16) {
    for (std::uint16_t& x : view.span<std::uint16_t>()) x = float_to_bfloat16(number());
  } else if (view.dtype() == DType::kI32) {
    std::int32_t i = 0;
    for (std::int32_t& x : view.span<std::int32_t>()) x = value.name == "step" ? 3 : i++ * 7 % 500;
    if (value.name == "bbox") {
      for (std::int32_t& x : view.span<std::int32_t>()) x = x * 2;
    }
  }
}

// The ops, with rows of `dtype`, and their memory.
struct Ops {
  Ops(CpuBackend& backend, DType dtype);

  Graph g;
  std::vector<TensorView> views;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
};

Ops::Ops(CpuBackend& backend, DType dtype) {
  constexpr std::int64_t n = kRows;
  const auto f = [&](const char* name, Shape shape) { return g.add_input(name, {DType::kF32, shape}); };
  const auto half = [&](const char* name, Shape shape) { return g.add_input(name, {dtype, shape}); };
  const auto i = [&](const char* name, Shape shape) { return g.add_input(name, {DType::kI32, shape}); };
  const ValueId x = half("x", {n, 768}), dy = half("dy", {n, 768}), wide = half("wide", {n, 3072}),
                dwide = half("dwide", {n, 3072});
  const ValueId gamma = f("gamma", {768}), beta = f("beta", {768}), rstd = f("rstd", {n});
  const ValueId keys = i("keys", {n, 2}), key = i("key", {2}), ids = i("ids", {n}), bbox = i("bbox", {n, 4});
  const ValueId words = f("words", {50265, 768}), spatial = f("spatial", {1024, 128});
  const ValueId matrix = f("matrix", {3072, 768});
  const ValueId m = f("m", {3072, 768}), v = f("v", {3072, 768}), one = f("one", {1}), step = i("step", {1});
  const DropoutAttributes dropout_attributes{.p = 0.1, .site = 1};
  const auto node = [&](Op op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    g.add_node({.op = op, .name = std::string(op_name(op)), .attributes = attributes, .inputs = std::move(inputs)});
  };
  node(Op::kAdd, {x, dy});
  node(Op::kLayerNorm, {x, gamma, beta}, LayerNormAttributes{});
  node(Op::kAffine, {x, gamma, beta});
  node(Op::kLayerNormGrad, {dy, x, rstd, gamma}, LayerNormAttributes{});
  node(Op::kDropout, {x, keys, key}, dropout_attributes);
  node(Op::kGelu, {wide});
  node(Op::kGeluGrad, {dwide, wide}, GeluAttributes{});
  node(Op::kTanh, {x});
  node(Op::kRelu, {x});
  node(Op::kReluGrad, {dy, x});
  node(Op::kBiasGrad, {x});
  node(Op::kBiasGrad, {wide});
  const bool whole = dtype == DType::kF32;  // ops on parameters and below the encoder use F32
  const ValueId f_dy = whole ? dy : f("f_dy", {n, 768});
  if (whole) {
    node(Op::kEmbedding, {words, ids}, EmbeddingAttributes{});
    node(Op::kSpatialEmbedding, {spatial, spatial, spatial, spatial, bbox},
         SpatialAttributes{.table_rows = 1024, .coordinate_size = 128, .shape_size = 128});
    node(Op::kEmbeddingGrad, {f_dy, ids}, EmbeddingAttributes{.padding_idx = 1, .table_rows = 514});
    node(Op::kEmbeddingRowGrad, {f_dy, ids}, EmbeddingAttributes{.padding_idx = 1, .row_gradient = true});
    node(Op::kSpatialEmbeddingGrad, {f_dy, bbox},
         SpatialAttributes{.table_rows = 1024, .coordinate_size = 128, .shape_size = 128});
    node(Op::kSumSquares, {matrix});
    // Links between 256 entities of each of two pages.
    const ValueId heads = f("heads", {512, 384}), tails = f("tails", {512, 768}), terms = f("terms", {512, 2});
    const PairAttributes pairs{.group = 256};
    node(Op::kPairScores, {heads, tails, terms, terms}, pairs);
    node(Op::kPairScoresGrad, {f("dpairs", {512 * 256, 2}), heads, tails}, pairs);
  }
  // The updates, for whole and for split parameters.
  const Shape shape{3072, 768};
  const ValueId gradient = f("gradient", shape), high = g.add_input("high", {DType::kBF16, shape}),
                low = g.add_input("low", {DType::kI16, shape});
  const auto codes = [&] { return g.add_input("codes", {DType::kU8, shape}); };
  const auto absmax = [&] { return f("absmax", {shape.elements() / 256}); };
  {
    const std::vector<ValueId> parameter = whole ? std::vector{matrix} : std::vector{high, low};
    const auto update = [&](Op op, std::vector<ValueId> states, Attributes attributes) {
      std::vector<ValueId> inputs = parameter;
      inputs.insert(inputs.end(), states.begin(), states.end());
      inputs.insert(inputs.end(), {gradient, one, step, one});
      node(op, std::move(inputs), attributes);
    };
    update(Op::kAdamW, {m, v}, AdamWAttributes{});
    update(Op::kAdamW, {codes(), absmax(), codes(), absmax()}, AdamWAttributes{});
    update(Op::kAdafactor, {f("v", {3072}), f("v", {768})}, AdafactorAttributes{});
  }

  for (std::size_t value = 0; value < g.values().size(); ++value) {
    const Value& described = g.values()[value];
    if (described.producer != kNoNode && is_parameter_update(g.node(described.producer).op)) {
      views.push_back(views[static_cast<std::size_t>(
          g.node(described.producer).inputs[static_cast<std::size_t>(described.output_index)])]);
      continue;
    }
    memory.push_back(backend.allocate(described.type.bytes()));
    views.emplace_back(described.type, memory.back()->bytes().data());
    if (described.producer == kNoNode) fill(described, views.back());
  }
}

void time_op(benchmark::State& state, CpuBackend& backend, const Ops& ops, NodeId id, double rate) {
  const Node& node = ops.g.node(id);
  const std::unique_ptr<Kernel> kernel = backend.prepare(ops.g, node);
  const std::unique_ptr<DeviceMemory> scratch = backend.allocate(kernel->scratch_bytes());
  std::vector<TensorView> in, out;
  double bytes = 0;
  const auto view = [&](ValueId value) {
    const TensorView of = ops.views[static_cast<std::size_t>(value)];
    if (of.shape() != Shape{50265, 768}) bytes += static_cast<double>(of.bytes());  // few of the words are read
    return of;
  };
  for (const ValueId value : node.inputs) in.push_back(view(value));
  for (const ValueId value : node.outputs) out.push_back(view(value));
  for (auto _ : state) kernel->run({.inputs = in, .outputs = out, .scratch = scratch->bytes()});
  state.counters["bytes_per_second"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of_floor"] = benchmark::Counter(bytes / rate, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  using namespace plimsoll;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  CpuBackend backend(0);
  const double rate = plain_rate();
  fmt::print("{} threads, {} rows; a plain loop moves {:.1f} GB/s\n", backend.threads(), kRows, rate * 1e-9);
  const Ops whole(backend, DType::kF32), halves(backend, DType::kBF16);
  for (const Ops* ops : {&whole, &halves}) {
    for (NodeId id = 0; id < static_cast<NodeId>(ops->g.nodes().size()); ++id) {
      const Node& node = ops->g.node(id);
      const bool coded = is_parameter_update(node.op) && update_form(ops->g, node).coded;
      const std::string name =
          fmt::format("{}{}/{}", op_name(node.op), coded ? "_8bit" : "", to_string(ops->g.type(node.inputs[0])));
      benchmark::RegisterBenchmark(
          name.c_str(), [&backend, ops, id, rate](benchmark::State& state) { time_op(state, backend, *ops, id, rate); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
