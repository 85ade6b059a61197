// The kernels that backend/cuda/sizes takes a node to start are those that it starts, for every op case.
#include "backend/cuda/sizes/kernel_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/sizes/roofline.h"
#include "backend/op_case.h"
#include "cublaslt_emulator.h"
#include "cuda_emulator.h"
#include "graph/attention_form.h"
#include "support/graph_runner.h"

namespace plimsoll::test {
namespace {

// Counts what the kernels of its nodes start.
class CountingBackend final : public Backend {
 public:
  CountingBackend() { cuda_emulator::refuse_products(false); }  // whatever another test has left
  std::string_view name() const override { return "counting"; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
    return std::make_unique<CountingKernel>(gpu_.prepare(graph, node), starts_.emplace_back(0));
  }
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) override { return gpu_.allocate(bytes); }
  void wait() override { gpu_.wait(); }

  // Of the nodes, in the order in which they were prepared.
  const std::deque<int>& starts() const { return starts_; }

 private:
  class CountingKernel final : public Kernel {
   public:
    CountingKernel(std::unique_ptr<Kernel> kernel, int& starts) : kernel_(std::move(kernel)), starts_(starts) {}
    std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
    void run(const KernelArguments& arguments) const override {
      const int before = cuda_emulator::starts();
      kernel_->run(arguments);
      starts_ += cuda_emulator::starts() - before;
    }

   private:
    std::unique_ptr<Kernel> kernel_;
    int& starts_;
  };

  CudaBackend gpu_;
  std::deque<int> starts_;
};

// Whether there are no samples, or no rows at all.
bool is_empty(const Graph& graph, const Node& node) {
  if (node.op == Op::kAttention || node.op == Op::kAttentionGrad) {
    return graph.type(node.inputs[attention_form(node).sample_offsets()]).shape[0] < 2;
  }
  return graph.type(node.inputs[0]).shape.elements() == 0;
}

void expect_counted(const std::vector<OpCase>& cases, DType dtype, std::set<Op>& seen) {
  for (const OpCase& op_case : cases) {
    const BuiltCase built = op_case.build(dtype, true);
    const bool exchanges = std::ranges::any_of(
        built.graph.nodes(), [](const Node& node) { return is_collective(node.op) || is_transfer(node.op); });
    if (exchanges) continue;
    CountingBackend backend;
    GraphRunner runner(built.graph, backend);
    built.set_data(runner);
    runner.run();
    for (std::size_t n = 0; n < built.graph.nodes().size(); ++n) {
      const Node& node = built.graph.nodes()[n];
      int starts = 0;
      for (const cuda::KernelWork& work : cuda::kernel_work(built.graph, node)) {
        starts += work.starts;
        EXPECT_GE(work.bytes, 0) << node.name << ", " << work.kernel;
      }
      // A tensor without elements starts nothing, or only what clears it.
      if (is_empty(built.graph, node)) continue;
      if (backend.starts().at(n) > 0) {
        EXPECT_EQ(starts, backend.starts().at(n)) << op_case.name << ", " << dtype_name(dtype) << ", " << node.name;
      }
      seen.insert(node.op);
    }
  }
}

TEST(KernelWork, StartsAreThoseOfTheKernels) {
  std::set<Op> seen;
  expect_counted(all_cases(), DType::kF32, seen);
  expect_counted(half_cases(), DType::kBF16, seen);
  for (const Op op : {Op::kLinear, Op::kLinearWeightGrad, Op::kAttentionGrad, Op::kLayerNormGrad, Op::kBiasGrad,
                      Op::kSumSquares, Op::kGradientNorm, Op::kEmbeddingRowGrad, Op::kSpatialEmbeddingGrad,
                      Op::kMergeRowGrads, Op::kAdamW, Op::kAdafactor, Op::kCrossEntropy}) {
    EXPECT_TRUE(seen.contains(op)) << op_name(op);
  }
}

// Products of halves are two multiply-adds' flops each, and their operands and result pass through memory once.
TEST(Roofline, AProductTakesTheSlowerOfArithmeticAndMemory) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kBF16, {512, 256}});
  const ValueId w = graph.add_parameter("w", {DType::kBF16, {1024, 256}});
  graph.mark_output(graph.add_node({.op = Op::kLinear, .name = "dense", .inputs = {x, w}})[0]);
  const cuda::GpuRates& gpu = *cuda::find_gpu("h200");
  const cuda::StepModel model = cuda::model_step(graph, gpu);
  ASSERT_EQ(model.kernels.size(), 1U);
  const double flops = 2.0 * 512 * 256 * 1024, bytes = 2.0 * (512 * 256 + 1024 * 256 + 512 * 1024);
  EXPECT_EQ(model.flops(), flops);
  EXPECT_EQ(model.kernels[0].work.bytes, bytes);
  EXPECT_DOUBLE_EQ(model.seconds(),
                   std::max(flops / gpu.half_flops, bytes / gpu.memory_bytes) + cuda::kSecondsBetweenKernels);
  EXPECT_EQ(cuda::find_gpu("h300"), nullptr);
}

// Three maps of the same rows are one launch, and the arithmetic and bytes of three; a fourth, of fewer columns, is alone.
TEST(Roofline, ABatchOfProductsIsLaunchedOnce) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kBF16, {512, 256}});
  for (const std::int64_t columns : {256, 256, 256, 128}) {
    const std::string name = "map" + std::to_string(graph.nodes().size());
    const ValueId weight = graph.add_parameter(name + ".weight", {DType::kBF16, {columns, 256}});
    graph.mark_output(graph.add_node({.op = Op::kLinear, .name = name, .inputs = {x, weight}})[0]);
  }
  const cuda::StepModel model = cuda::model_step(graph, *cuda::find_gpu("h200"));
  ASSERT_EQ(model.kernels.size(), 4U);
  EXPECT_EQ(model.starts(), 2);
  EXPECT_EQ(model.kernels[0].work.starts, 1);
  EXPECT_EQ(model.kernels[2].work.bytes, model.kernels[0].work.bytes);
  EXPECT_EQ(model.flops(), 2.0 * 512 * 256 * (3 * 256 + 128));
}

}  // namespace
}  // namespace plimsoll::test
