// The CUDA backend's kernels, run by the emulator, against the reference; the threads of a block in both orders, which
// shows barriers that are missing.
#include "backend/backend_suite.h"
#include "backend/cuda/cuda_backend.h"
#include "cublaslt_emulator.h"
#include "cuda_emulator.h"

namespace plimsoll::test {
namespace {

// Each thread passes a number to its neighbour; without the barrier some read too early, in one order of threads or the
// other.
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

// `own_products`: cuBLASLt multiplies nothing.
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
