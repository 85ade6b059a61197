#include <gtest/gtest.h>

#include <algorithm>

#include "backend/backend_suite.h"
#include "backend/compare.h"
#include "backend/reference/reference_backend.h"

namespace plimsoll::test {
namespace {

// Checks running in place, running again, and writing nothing that it should not.
INSTANTIATE_TEST_SUITE_P(Reference, BackendSuite,
                         testing::ValuesIn(suite_of("reference", [] { return std::make_unique<ReferenceBackend>(); })),
                         suite_test_name);

INSTANTIATE_TEST_SUITE_P(ReferenceBF16, BackendSuite,
                         testing::ValuesIn(suite_of(
                             "reference", [] { return std::make_unique<ReferenceBackend>(); }, ops_with_halves(),
                             DType::kBF16)),
                         suite_test_name);

TEST(ReferenceBackend, F32IsNearF64) {
  ReferenceBackend backend;
  for (const OpCase& op_case : all_cases()) {
    SCOPED_TRACE(op_case.name);
    const BuiltCase single = op_case.build(DType::kF32, true);
    const auto values = single.graph.values();
    if (std::any_of(values.begin(), values.end(), [](const Value& v) { return is_half(v.type.dtype); })) continue;
    const BuiltCase exact = op_case.build(DType::kF64, true);
    GraphRunner found(single.graph, backend), expected(exact.graph, backend);
    single.set_data(found);
    exact.set_data(expected);
    found.run();
    expected.run();
    expect_near(single.graph, found, expected);
  }
}

TEST(ReferenceBackend, EveryOpHasACase) {
  std::vector<int> cases(kOpCount, 0);
  for (const OpCase& op_case : all_cases()) {
    const BuiltCase built = op_case.build(DType::kF32, true);
    for (const Node& node : built.graph.nodes()) ++cases[static_cast<std::size_t>(node.op)];
  }
  for (std::size_t op = 0; op < kOpCount; ++op) {
    if (is_transfer(static_cast<Op>(op))) continue;    // they need a file: test/runtime/transfer_queue_test.cpp
    if (is_collective(static_cast<Op>(op))) continue;  // they need other ranks: test/runtime/collectives_test.cpp
    EXPECT_GE(cases[op], 3) << op_name(static_cast<Op>(op));
  }
}

}  // namespace
}  // namespace plimsoll::test
