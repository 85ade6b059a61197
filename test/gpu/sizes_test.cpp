// What plans without a GPU take a kernel's scratch to be is what the kernel itself declares, for every op case.
#include "backend/cuda/sizes/sizes.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/sizes/cuda_planner.h"
#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

void expect_same_sizes(const std::vector<OpCase>& cases, DType dtype, std::set<Op>& with_scratch) {
  CudaBackend gpu;
  CudaPlanner planner({});
  for (const OpCase& op_case : cases) {
    for (const bool backward : {false, true}) {
      const BuiltCase built = op_case.build(dtype, backward);
      for (const Node& node : built.graph.nodes()) {
        const std::size_t scratch_bytes = gpu.prepare(built.graph, node)->scratch_bytes();
        EXPECT_EQ(planner.prepare(built.graph, node)->scratch_bytes(), scratch_bytes)
            << op_case.name << ", " << dtype_name(dtype) << ", " << node.name;
        if (scratch_bytes > 0) with_scratch.insert(node.op);
      }
    }
  }
}

TEST(GpuSizes, ScratchIsWhatEveryKernelDeclares) {
  std::set<Op> with_scratch;
  expect_same_sizes(all_cases(), DType::kF32, with_scratch);
  expect_same_sizes(half_cases(), DType::kBF16, with_scratch);
  expect_same_sizes(half_cases(), DType::kF16, with_scratch);
  // All ops that have scratch are among the cases.
  for (const Op op :
       {Op::kLinear,        Op::kLinearAdd,    Op::kLinearInputGrad, Op::kLinearWeightGrad, Op::kAttentionGrad,
        Op::kLayerNormGrad, Op::kBiasGrad,     Op::kCrossEntropy,    Op::kElementLoss,      Op::kSpanCrossEntropy,
        Op::kSumSquares,    Op::kGradientNorm, Op::kEmbeddingGrad,   Op::kEmbeddingRowGrad, Op::kSpatialEmbeddingGrad,
        Op::kMergeRowGrads, Op::kAdafactor,    Op::kAdafactorRows,   Op::kContrastiveLoss,  Op::kCachedGradient}) {
    EXPECT_TRUE(with_scratch.contains(op)) << op_name(op);
  }
}

TEST(GpuSizes, BuffersForCopiesAreThoseOfTheBackend) {
  const CudaBackend gpu;
  const CudaPlanner planner({});
  for (const std::size_t arena : {std::size_t{0}, std::size_t{1}, 300 * kMiB, 7 * kGiB}) {
    EXPECT_EQ(planner.buffer_bytes(arena).device, gpu.buffer_bytes(arena).device);
    EXPECT_EQ(planner.buffer_bytes(arena).host, gpu.buffer_bytes(arena).host);
  }
}

}  // namespace
}  // namespace plimsoll::test
