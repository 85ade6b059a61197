// Measures the time of the CPU backend's attention, forward and backward, with LayoutLMv3's shapes.
//
//   build/release/bench/plimsoll_attention_bench
//
// "FLOP/s" counts only the matrix products: 4 S^2 d per head forward, 10 S^2 d backward. Boxes resemble a page's: lines
// of words, pieces of a word sharing its box, then the image's grid of 14 x 14 and its first token.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/dropout.h"
#include "graph/build.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

struct Sizes {
  std::int64_t samples, text, heads, head_size;
  std::int64_t length() const { return text + 197; }
};

std::uint32_t random_word(std::uint32_t a, std::uint32_t b) { return philox4x32({a, b, 0, 0}, {1, 2})[0]; }

// A graph of attention and its gradient, the memory of all its values, and the two kernels.
class Attention {
 public:
  Attention(const Sizes& shape, DType dtype, double dropout_p, bool table_gradients, int threads) : backend_(threads) {
    const std::int64_t n = shape.samples * shape.length(), width = shape.heads * shape.head_size;
    const auto rows = [&](const char* name) { return add(name, {dtype, {n, width}}); };
    const auto floats = [&](const char* name, Shape dims) { return add(name, {DType::kF32, dims}); };
    const auto integers = [&](const char* name, Shape dims) { return add(name, {DType::kI32, dims}); };
    const ValueId q = rows("q"), k = rows("k"), v = rows("v"), doutput = rows("doutput");
    const AttentionContext context{.sample_offsets = integers("sample_offsets", {shape.samples + 1}),
                                   .key_mask = integers("key_mask", {n}),
                                   .row_keys = integers("row_keys", {n, 2}),
                                   .dropout_key = integers("dropout_key", {2}),
                                   .relative_coordinates = integers("relative_coordinates", {n, 3}),
                                   .position_table = floats("position_table", {shape.heads, 32}),
                                   .x_table = floats("x_table", {shape.heads, 64}),
                                   .y_table = floats("y_table", {shape.heads, 64})};
    const AttentionAttributes attributes{
        .heads = shape.heads, .dropout_p = dropout_p, .site = 3, .table_gradients = table_gradients};
    plimsoll::attention(graph_, "attention", q, k, v, context, attributes, kNoValue);
    const Node& forward = graph_.nodes().back();
    Node backward{.op = Op::kAttentionGrad, .name = "attention_grad", .attributes = forward.attributes};
    backward.inputs = {doutput, q, k, v, forward.outputs[0], forward.outputs[1]};
    backward.inputs.insert(backward.inputs.end(), forward.inputs.begin() + 3, forward.inputs.end());
    graph_.add_node(backward);
    for (const Value& value : graph_.values()) memory_.push_back(backend_.allocate(value.type.bytes()));
    fill(shape, context);
    for (const Node& node : graph_.nodes()) {
      kernels_.push_back(backend_.prepare(graph_, node));
      scratch_.push_back(backend_.allocate(kernels_.back()->scratch_bytes()));
      for (const ValueId id : node.inputs) inputs_[kernels_.size() - 1].push_back(view(id));
      for (const ValueId id : graph_.node(static_cast<NodeId>(kernels_.size()) - 1).outputs) {
        outputs_[kernels_.size() - 1].push_back(view(id));
      }
    }
    run(0);
  }

  void run(std::size_t which) {
    kernels_[which]->run({.inputs = inputs_[which], .outputs = outputs_[which], .scratch = scratch_[which]->bytes()});
  }

 private:
  ValueId add(const char* name, TensorType type) { return graph_.add_input(name, type); }
  TensorView view(ValueId id) { return {graph_.type(id), memory_[static_cast<std::size_t>(id)]->bytes().data()}; }

  void fill(const Sizes& shape, const AttentionContext& context) {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values().size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.type.dtype == DType::kI32 || value.producer != kNoNode) continue;
      const TensorView tensor = view(id);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const float number =
            2 * uniform_float(random_word(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(id))) - 1;
        if (is_half(value.type.dtype)) {
          tensor.data<std::uint16_t>()[i] = float_to_bfloat16(number);
        } else {
          tensor.data<float>()[i] = number;
        }
      }
    }
    std::int32_t* const offsets = view(context.sample_offsets).data<std::int32_t>();
    std::int32_t* const coordinates = view(context.relative_coordinates).data<std::int32_t>();
    std::int32_t* const mask = view(context.key_mask).data<std::int32_t>();
    std::int32_t* const row_keys = view(context.row_keys).data<std::int32_t>();
    for (std::int64_t b = 0; b <= shape.samples; ++b) offsets[b] = static_cast<std::int32_t>(b * shape.length());
    for (std::int64_t row = 0; row < offsets[shape.samples]; ++row) {
      const auto b = static_cast<std::int32_t>(row / shape.length()),
                 i = static_cast<std::int32_t>(row % shape.length());
      const auto text = static_cast<std::int32_t>(shape.text);
      const auto word = static_cast<std::uint32_t>(i / 3), line = word / 5;
      const std::int32_t patch = i - text - 1;
      const std::int32_t position = i < text ? i : i - text;
      std::int32_t x = 1, y = 999;
      if (i < text) {
        x = static_cast<std::int32_t>(word % 5 * 150 + random_word(word, 7) % 60);
        y = static_cast<std::int32_t>(25 * line + random_word(word, 8) % 4);
      } else if (patch >= 0) {
        x = patch % 14 * 1000 / 14;
        y = (patch / 14 + 1) * 1000 / 14;
      }
      coordinates[3 * row] = position;
      coordinates[3 * row + 1] = x;
      coordinates[3 * row + 2] = y;
      mask[row] = 1;
      row_keys[2 * row] = b;
      row_keys[2 * row + 1] = i < text ? i : kVisualCoordinate + i - text;
    }
  }

  CpuBackend backend_;
  Graph graph_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_, scratch_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<TensorView> inputs_[2], outputs_[2];
};

// The arguments are backward, dropout, table gradients, bfloat16, threads.
void attention(benchmark::State& state, Sizes shape) {
  const auto backward = static_cast<std::size_t>(state.range(0));
  Attention attention(shape, state.range(3) != 0 ? DType::kBF16 : DType::kF32, state.range(1) != 0 ? 0.1 : 0.0,
                      state.range(2) != 0, static_cast<int>(state.range(4)));
  for (auto _ : state) attention.run(backward);
  const double products = (backward != 0 ? 10.0 : 4.0) * static_cast<double>(shape.samples * shape.heads) *
                          static_cast<double>(shape.length() * shape.length() * shape.head_size);
  state.counters["FLOP/s"] = benchmark::Counter(products, benchmark::Counter::kIsIterationInvariantRate);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"backward", "dropout", "tables", "bf16", "threads"})
      ->UseRealTime()
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
  for (const int bf16 : {0, 1}) {
    for (const int threads : {1, 2}) {
      for (const int dropout : {0, 1}) {
        benchmark->Args({0, dropout, 0, bf16, threads});
        benchmark->Args({1, dropout, 0, bf16, threads});
      }
    }
    benchmark->Args({1, 1, 1, bf16, 2});
  }
}
BENCHMARK_CAPTURE(attention, base, Sizes{2, 512, 12, 64})->Apply(sizes);
BENCHMARK_CAPTURE(attention, small, Sizes{8, 128, 8, 32})->Apply(sizes);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
