// The suite that every backend passes: each case of op_case.h, forward alone and with backward, is compared with the
// reference backend within tolerances.h; results must be bit-identical when run again and when outputs alias dying
// inputs.
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, BackendSuite,
//                            testing::ValuesIn(suite_of("cpu", [] { return std::make_unique<CpuBackend>(); })),
//                            suite_test_name);
#pragma once

#include <gtest/gtest.h>

#include "backend/op_case.h"

namespace plimsoll::test {

struct SuiteParameter {
  std::string backend;
  std::function<std::unique_ptr<Backend>()> make_backend;
  OpCase op_case;
  DType dtype = DType::kF32;
};
std::ostream& operator<<(std::ostream& stream, const SuiteParameter& parameter);

class BackendSuite : public testing::TestWithParam<SuiteParameter> {};

// Returns all cases, with floating tensors of `dtype`. With `ops` (for a backend under construction) only those whose
// forward and backward nodes are all among them.
std::vector<SuiteParameter> suite_of(std::string backend, std::function<std::unique_ptr<Backend>()> make_backend,
                                     std::span<const Op> ops = {}, DType dtype = DType::kF32);

// The ops of an encoder layer, which take BF16 and F16.
std::span<const Op> ops_with_halves();

std::string suite_test_name(const testing::TestParamInfo<SuiteParameter>& info);

}  // namespace plimsoll::test
