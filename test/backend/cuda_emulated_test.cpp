// Compares the CUDA backend's kernels, run by the emulator, with the reference; the threads of a block run in both
// orders, which reveals missing barriers.
#include "backend/backend_suite.h"
#include "backend/cuda/cuda_backend.h"
#include "cublaslt_emulator.h"
#include "cuda_emulator.h"

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

// With `own_products`, cuBLASLt multiplies nothing.
std::function<std::unique_ptr<Backend>()> maker(bool reverse, bool own_products = false) {
  return [reverse, own_products] {
    cuda_emulator::reverse_threads(reverse);
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

INSTANTIATE_TEST_SUITE_P(CudaEmulated, BackendSuite, testing::ValuesIn(suite(DType::kF32)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedReversed, BackendSuite, testing::ValuesIn(suite(DType::kF32, true)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedBF16, BackendSuite, testing::ValuesIn(suite(DType::kBF16)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaEmulatedF16, BackendSuite, testing::ValuesIn(suite(DType::kF16)), suite_test_name);

INSTANTIATE_TEST_SUITE_P(CudaOwnProducts, BackendSuite, testing::ValuesIn(own_products(DType::kF32)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaOwnProductsBF16, BackendSuite, testing::ValuesIn(own_products(DType::kBF16)),
                         suite_test_name);
INSTANTIATE_TEST_SUITE_P(CudaOwnProductsF16, BackendSuite, testing::ValuesIn(own_products(DType::kF16)),
                         suite_test_name);

}  // namespace
}  // namespace plimsoll::test
