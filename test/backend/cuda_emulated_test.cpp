// Compares the CUDA backend's kernels, run by the emulator, with the reference; the threads of a block run in both
// orders, which reveals missing barriers.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "backend/backend_suite.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/sizes/products.h"
#include "backend/cuda/sizes/tails.h"
#include "base/error.h"
#include "cublaslt_emulator.h"
#include "cuda_emulator.h"
#include "graph/op_facts.h"

namespace plimsoll::test {
namespace {

// Each thread passes a number to its neighbour; without the barrier some threads read too early, in one thread order or
// the other.
template <bool kWaits>
void pass_on(const int* from, int* to) {
  static int shared[64];
  shared[threadIdx.x] = from[threadIdx.x];
  if (kWaits) __syncthreads();
  to[threadIdx.x] = shared[(threadIdx.x + 1) % 64];
  __syncthreads();
  shared[threadIdx.x] = -1;
}

TEST(CudaEmulator, ShowsAMissingBarrier) {
  std::vector<int> from(64), to(64), expected(64);
  for (std::size_t i = 0; i < 64; ++i) {
    from[i] = static_cast<int>(i);
    expected[i] = static_cast<int>((i + 1) % 64);
  }
  for (const bool waits : {true, false}) {
    bool right = true;
    for (const bool reverse : {false, true}) {
      cuda_emulator::reverse_threads(reverse);
      for (int run = 0; run < 2; ++run) {
        cuda_emulator::run({}, {64, 1, 1}, 0, [&] {
          waits ? pass_on<true>(from.data(), to.data()) : pass_on<false>(from.data(), to.data());
        });
        right = right && to == expected;
      }
    }
    EXPECT_EQ(right, waits);
  }
}

TEST(CudaEmulator, RefusesABarrierThatSomeThreadsPassBy) {
  EXPECT_THROW(cuda_emulator::run({}, {64, 1, 1}, 0,
                                  [] {
                                    if (threadIdx.x < 8) __shfl_xor_sync(0xFFFFFFFFU, 1, 1);
                                    __syncthreads();
                                  }),
               std::logic_error);
}

TEST(CudaEmulator, RefusesWhatAGpuDoesNotLaunch) {
  static int kernel = 0;
  const auto launch = [](dim3 grid, dim3 block, std::size_t shared_bytes) {
    cuda_emulator::check_launch(&kernel, grid, block, shared_bytes);
  };
  EXPECT_NO_THROW(launch({1 << 20, 65535, 65535}, {1024}, 48 << 10));
  EXPECT_THROW(launch({1, 65536, 1}, {32}, 0), std::logic_error);
  EXPECT_THROW(launch({1, 1, 65536}, {32}, 0), std::logic_error);
  EXPECT_THROW(launch({1}, {1025}, 0), std::logic_error);
  EXPECT_THROW(launch({1}, {32}, (48 << 10) + 1), std::logic_error);
  constexpr cudaFuncAttribute kShared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(&kernel, kShared, 100 << 10), cudaSuccess);
  EXPECT_NO_THROW(launch({1}, {32}, 100 << 10));
  EXPECT_EQ(cudaFuncSetAttribute(&kernel, kShared, 228 << 10), cudaErrorInvalidValue);
}

TEST(CudaEmulator, RefusesWhatIsNotCaptured) {
  cudaStream_t origin = nullptr, other = nullptr;
  cudaEvent_t begun = nullptr, ended = nullptr, before = nullptr;
  for (cudaStream_t* const stream : {&origin, &other}) cudaStreamCreate(stream);
  for (cudaEvent_t* const event : {&begun, &ended, &before}) cudaEventCreate(event);
  cudaEventRecord(before, other);
  const auto capture = [&](const auto& body) {
    cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal);
    body();
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(origin, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error;
  };
  const auto fork = [&] {
    cudaEventRecord(begun, origin);
    EXPECT_EQ(cudaStreamWaitEvent(other, begun, 0), cudaSuccess);
    cuda_emulator::enqueue(other, [] {});
  };
  EXPECT_EQ(capture(fork), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaEventSynchronize(begun), cudaErrorCapturedEvent);
  EXPECT_EQ(capture([&] {
              fork();
              cudaEventRecord(ended, other);
              EXPECT_EQ(cudaStreamWaitEvent(origin, ended, 0), cudaSuccess);
            }),
            cudaSuccess);
  EXPECT_EQ(capture([&] {
              EXPECT_EQ(cudaStreamWaitEvent(origin, before, 0), cudaErrorStreamCaptureIsolation);
              void* memory = nullptr;
              EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorStreamCaptureUnsupported);
              int from = 1, to = 0;
              EXPECT_EQ(cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyHostToDevice, origin),
                        cudaErrorStreamCaptureUnsupported);
            }),
            cudaSuccess);
  for (cudaEvent_t const event : {begun, ended, before}) cudaEventDestroy(event);
  for (cudaStream_t const stream : {origin, other}) cudaStreamDestroy(stream);
}

// What sizes/tails.h says of rows behind the real ones is what kernels leave there.
void expect_tails(const std::vector<OpCase>& cases, DType dtype, int& zeros, int& finite) {
  for (const OpCase& op_case : cases) {
    if (op_case.name == "attention/no_samples") continue;  // nothing is started for it
    const BuiltCase built = op_case.build(dtype, true);
    for (const bool own_products : {false, true}) {
      cuda_emulator::refuse_products(own_products);
      CudaBackend backend;
      GraphRunner runner(built.graph, backend);
      built.set_data(runner);
      runner.run();
      for (const Node& node : built.graph.nodes()) {
        if (node.row_count == kNoValue) continue;
        const auto real = static_cast<std::size_t>(runner.get(node.row_count).at(0));
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
          const TensorType& type = built.graph.type(node.outputs[i]);
          const cuda::Tail tail = cuda::tail_of(built.graph, node.outputs[i], node.row_count);
          const bool counts_rows = defined_rows(node, i, [](ValueId) { return std::int64_t{0}; }).has_value();
          if (tail == cuda::Tail::kUnknown || !counts_rows || !is_floating(type.dtype) || type.shape.rank() != 2 ||
              (node.op == Op::kLayerNorm && i == 2) || (node.op == Op::kRmsNorm && i == 2) ||
              (node.op == Op::kAttention && i == 1)) {
            continue;
          }
          const std::vector<double> values = runner.get(node.outputs[i]);
          for (std::size_t at = real * static_cast<std::size_t>(type.shape[1]); at < values.size(); ++at) {
            ++(tail == cuda::Tail::kZero ? zeros : finite);
            const bool holds = tail == cuda::Tail::kZero ? values[at] == 0 : std::isfinite(values[at]);
            ASSERT_TRUE(holds) << op_case.name << ", " << node.name << ", output " << i << ": " << values[at];
          }
        }
      }
    }
  }
  cuda_emulator::refuse_products(false);
}

// A map of a layer norm's rows, and a map of gelu's gradient, as encoders have them.
OpCase chain() {
  return {"chain", [](CaseBuilder& b) {
            const ValueId rows = b.rows(5);
            const auto weight = [&](const char* name) { return b.tensor(name, {8, 8}); };
            const ValueId x = layer_norm(b.graph, "norm", b.tensor("x", {9, 8}, 5), b.wide_tensor("gamma", {8}),
                                         b.wide_tensor("beta", {8}), 1e-5, rows)
                                  .y;
            const ValueId y = linear(b.graph, "first", x, weight("w1"), b.wide_tensor("bias", {8}), rows);
            const ValueId z = add_single(b.graph, {.op = Op::kGelu, .name = "gelu", .inputs = {y}, .row_count = rows});
            b.objective(linear(b.graph, "second", z, weight("w2"), kNoValue, rows));
          }};
}

TEST(CudaEmulator, RowsBehindTheRealOnesHoldWhatIsSaidOfThem) {
  int zeros = 0, finite = 0;
  std::vector<OpCase> cases = all_cases();
  cases.push_back(chain());
  expect_tails(cases, DType::kF32, zeros, finite);
  expect_tails({chain()}, DType::kBF16, zeros, finite);
  EXPECT_GT(zeros, 1000);
  EXPECT_GT(finite, 10);
  // The maps' weights then have their gradients without anything being filled.
  const BuiltCase built = chain().build(DType::kBF16, true);
  for (const Node& node : built.graph.nodes()) {
    if (node.op != Op::kLinearWeightGrad) continue;
    const bool first = node.name.starts_with("first");
    EXPECT_EQ(cuda::WeightGradientForm(built.graph, node).fills, !first) << node.name;
  }
}

// With `own_products`, cuBLASLt multiplies nothing.
std::function<std::unique_ptr<Backend>()> maker(bool reverse, bool own_products = false, int capability = 90) {
  return [reverse, own_products, capability] {
    cuda_emulator::reverse_threads(reverse);
    cuda_emulator::machine().capability = capability;
    cuda_emulator::refuse_products(own_products);
    return std::make_unique<CudaBackend>();
  };
}

std::vector<SuiteParameter> suite(DType dtype, bool reverse = false) {
  return suite_of(reverse ? "cuda, last thread first" : "cuda", maker(reverse), {}, dtype);
}

std::vector<SuiteParameter> own_products(DType dtype) {
  static constexpr Op kOps[] = {Op::kAdd,       Op::kScale,           Op::kAccumulate,       Op::kCast,    Op::kLinear,
                                Op::kLinearAdd, Op::kLinearInputGrad, Op::kLinearWeightGrad, Op::kBiasGrad};
  std::vector<SuiteParameter> parameters =
      suite_of("cuda, own products", maker(dtype == DType::kF32, true), kOps, dtype);
  std::erase_if(parameters, [](const SuiteParameter& each) { return !each.op_case.name.starts_with("linear"); });
  return parameters;
}

// Heads of 64 columns, which halves have two forms of attention for: GPUs from Hopper on run kernels by warpgroups,
// those before by warps.
std::vector<SuiteParameter> heads_of_64(std::vector<SuiteParameter> parameters) {
  static constexpr std::string_view kCases[] = {"attention/head_64_dropout",
                                                "attention/head_64_longer_than_tiles",
                                                "attention/made_biases_longer_than_tiles",
                                                "attention/made_biases_of_many_tiles",
                                                "attention/sums_in_parts_longer_than_tiles",
                                                "attention/sums_no_biases",
                                                "attention/shared_keys_no_biases",
                                                "attention/causal_shared_keys",
                                                "attention/causal_head_64_dropout"};
  std::erase_if(parameters, [](const SuiteParameter& each) {
    return std::ranges::find(kCases, each.op_case.name) == std::end(kCases);
  });
  check(parameters.size() == std::size(kCases), "these cases are among all");
  return parameters;
}
std::vector<SuiteParameter> ampere(DType dtype, bool reverse) {
  return heads_of_64(suite_of("cuda, compute capability 8.0", maker(reverse, false, 80), {}, dtype));
}

INSTANTIATE_TEST_SUITE_P(CudaEmulated, BackendSuite, testing::ValuesIn(suite(DType::kF32)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedReversed, BackendSuite, testing::ValuesIn(suite(DType::kF32, true)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedBF16, BackendSuite, testing::ValuesIn(suite(DType::kBF16)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedF16, BackendSuite, testing::ValuesIn(suite(DType::kF16)), suite_test_name);

INSTANTIATE_TEST_SUITE_P(CudaEmulatedAmpereBF16, BackendSuite, testing::ValuesIn(ampere(DType::kBF16, false)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedAmpereF16, BackendSuite, testing::ValuesIn(ampere(DType::kF16, true)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedReversedBF16, BackendSuite,
                         testing::ValuesIn(heads_of_64(suite(DType::kBF16, true))), suite_test_name);

INSTANTIATE_TEST_SUITE_P(CudaOwnProducts, BackendSuite, testing::ValuesIn(own_products(DType::kF32)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaOwnProductsBF16, BackendSuite, testing::ValuesIn(own_products(DType::kBF16)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaOwnProductsF16, BackendSuite, testing::ValuesIn(own_products(DType::kF16)),
                         suite_test_name);

}  // namespace
}  // namespace plimsoll::test
