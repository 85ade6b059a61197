#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/backend_suite.h"

namespace plimsoll::test {
namespace {

std::vector<Op> all_but_attention() {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (op != Op::kAttention && op != Op::kAttentionGrad) ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Cpu, BackendSuite,
                         testing::ValuesIn(suite_of(
                             "cpu", [] { return std::make_unique<CpuBackend>(2); }, all_but_attention())),
                         suite_test_name);

}  // namespace
}  // namespace plimsoll::test
