// The suite that every backend passes: each case of op_case.h, forward alone and with backward, against the reference
// backend within tolerances.h; and bit for bit the same when run again and when outputs lie in the bytes of dying
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

// All cases. With `ops` (for a backend in the making): those whose forward and backward nodes are all among them.
// `dtype`: of their floating tensors.
std::vector<SuiteParameter> suite_of(std::string backend, std::function<std::unique_ptr<Backend>()> make_backend,
                                     std::span<const Op> ops = {}, DType dtype = DType::kF32);

// Those of an encoder layer, which take BF16 and F16.
std::span<const Op> ops_with_halves();

std::string suite_test_name(const testing::TestParamInfo<SuiteParameter>& info);

}  // namespace plimsoll::test
