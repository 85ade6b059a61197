// Compares every op on the GPU with the reference, as test_backend does with the emulator.
#include "backend/backend_suite.h"
#include "backend/cuda/cuda_backend.h"

namespace plimsoll::test {
namespace {

std::vector<SuiteParameter> suite(DType dtype) {
  const auto make = [] { return std::make_unique<CudaBackend>(); };
  std::vector<SuiteParameter> parameters = suite_of("cuda", make, {}, dtype);
  for (const OpCase& each : long_attention_cases()) parameters.push_back({"cuda", make, each, dtype});
  return parameters;
}

INSTANTIATE_TEST_SUITE_P(Gpu, BackendSuite, testing::ValuesIn(suite(DType::kF32)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(GpuBF16, BackendSuite, testing::ValuesIn(suite(DType::kBF16)), suite_test_name);
INSTANTIATE_TEST_SUITE_P(GpuF16, BackendSuite, testing::ValuesIn(suite(DType::kF16)), suite_test_name);

}  // namespace
}  // namespace plimsoll::test
