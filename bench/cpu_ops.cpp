// The CPU backend's ops that are not products, at the base model's shapes: milliseconds, and the gigabytes a second
// that their inputs and outputs amount to (each counted once). With one thread its CPU time is taken.
//
//   plimsoll_cpu_ops [threads] [rows] [repetitions]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "graph/build.h"
#include "graph/update_form.h"

namespace plimsoll {
namespace {

double seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void fill(const Value& value, const TensorView& view) {
  if (view.dtype() == DType::kF32) {
    std::uint32_t state = 1;
    for (float& x : view.span<float>()) {
      state = state * 1664525U + 1013904223U;
      x = static_cast<float>(state >> 8) * 0x1.0p-23F + (value.name == "v" ? 0.0F : -1.0F);
    }
  } else if (view.dtype() == DType::kI32) {
    std::int32_t i = 0;
    for (std::int32_t& x : view.span<std::int32_t>()) x = value.name == "step" ? 3 : i++ * 7 % 500;
    if (value.name == "bbox") {
      for (std::int32_t& x : view.span<std::int32_t>()) x = x * 2;
    }
  }
}

void run(int threads, std::int64_t n, int repetitions) {
  Graph g;
  const auto f = [&](const char* name, Shape shape) { return g.add_input(name, {DType::kF32, shape}); };
  const auto i = [&](const char* name, Shape shape) { return g.add_input(name, {DType::kI32, shape}); };
  const ValueId x = f("x", {n, 768}), dy = f("dy", {n, 768}), wide = f("wide", {n, 3072}),
                dwide = f("dwide", {n, 3072});
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
  node(Op::kLayerNormAffine, {x, gamma, beta});
  node(Op::kLayerNormGrad, {dy, x, rstd, gamma});
  node(Op::kDropout, {x, keys, key}, dropout_attributes);
  node(Op::kGelu, {wide});
  node(Op::kGeluGrad, {dwide, wide});
  node(Op::kTanh, {x});
  node(Op::kBiasGrad, {x});
  node(Op::kBiasGrad, {wide});
  node(Op::kEmbedding, {words, ids}, EmbeddingAttributes{});
  node(Op::kSpatialEmbedding, {spatial, spatial, spatial, spatial, bbox});
  node(Op::kEmbeddingGrad, {dy, ids}, EmbeddingAttributes{.padding_idx = 1, .table_rows = 514});
  node(Op::kEmbeddingRowGrad, {dy, ids}, EmbeddingAttributes{.padding_idx = 1, .row_gradient = true});
  node(Op::kSpatialEmbeddingGrad, {dy, bbox},
       SpatialAttributes{.table_rows = 1024, .coordinate_size = 128, .shape_size = 128});
  node(Op::kSumSquares, {matrix});
  // The updates, of whole and of split parameters.
  const Shape shape{3072, 768};
  const ValueId gradient = f("gradient", shape), high = g.add_input("high", {DType::kBF16, shape}),
                low = g.add_input("low", {DType::kI16, shape});
  const auto codes = [&] { return g.add_input("codes", {DType::kU8, shape}); };
  const auto absmax = [&] { return f("absmax", {shape.elements() / 256}); };
  for (const std::vector<ValueId>& parameter : {std::vector{matrix}, std::vector{high, low}}) {
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

  CpuBackend backend(threads);
  std::vector<TensorView> views;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
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
  fmt::print("{} threads, {} rows, best of {}\n", backend.threads(), n, repetitions);
  for (const Node& node_of : g.nodes()) {
    const std::unique_ptr<Kernel> kernel = backend.prepare(g, node_of);
    const std::unique_ptr<DeviceMemory> scratch = backend.allocate(kernel->scratch_bytes());
    std::vector<TensorView> in, out;
    double bytes = 0;
    for (const ValueId id : node_of.inputs) in.push_back(views[static_cast<std::size_t>(id)]);
    for (const ValueId id : node_of.outputs) out.push_back(views[static_cast<std::size_t>(id)]);
    for (const TensorView& view : in)
      bytes += view.shape() == Shape{50265, 768} ? 0 : static_cast<double>(view.bytes());
    for (const TensorView& view : out) bytes += static_cast<double>(view.bytes());
    double best = 1e9;
    for (int r = 0; r <= repetitions; ++r) {
      const double start = seconds(threads);
      kernel->run({.inputs = in, .outputs = out, .scratch = scratch->bytes()});
      if (r > 0) best = std::min(best, seconds(threads) - start);
    }
    const bool coded = is_parameter_update(node_of.op) && update_form(g, node_of).coded;
    fmt::print("{:<24}{:>20}{:>9.3f} ms{:>8.1f} GB/s\n", fmt::format("{}{}", op_name(node_of.op), coded ? " (codes)" : ""),
               to_string(in[0].type()), best * 1e3, bytes / best * 1e-9);
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atol(argv[2]) : 1418,
                argc > 3 ? std::atoi(argv[3]) : 10);
}
