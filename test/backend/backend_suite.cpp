#include "backend/backend_suite.h"

#include <algorithm>
#include <ostream>
#include <set>

#include "backend/compare.h"
#include "backend/reference/reference_backend.h"
#include "graph/op_facts.h"

namespace plimsoll::test {

TEST_P(BackendSuite, AgreesWithTheReference) {
  ReferenceBackend reference;
  const std::unique_ptr<Backend> backend = GetParam().make_backend();
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "forward and backward" : "forward");
    const BuiltCase built = GetParam().op_case.build(GetParam().dtype, backward);
    GraphRunner expected(built.graph, reference);
    built.set_data(expected);
    expected.run();

    GraphRunner found(built.graph, *backend);
    built.set_data(found);
    found.run();
    expect_near(built.graph, found, expected);

    std::set<std::vector<ValueId>> seen;
    for (const Reuse reuse : {Reuse::kNever, Reuse::kFirst, Reuse::kLast}) {
      SCOPED_TRACE(reuse == Reuse::kNever ? "run again" : "outputs in place of inputs");
      if (!seen.insert(GraphRunner::places(built.graph, reuse)).second) continue;  // the same once more
      GraphRunner again(built.graph, *backend, {.reuse = reuse});
      for (int run = 0; run < (reuse == Reuse::kNever ? 2 : 1); ++run) {
        built.set_data(again);
        again.run();
        expect_identical(built.graph, again, found);
      }
    }
  }
}

std::ostream& operator<<(std::ostream& stream, const SuiteParameter& parameter) {
  return stream << parameter.backend << ": " << parameter.op_case.name;
}

namespace {

// True if all of a case's nodes are among `ops`. Building a case takes time at every start of the program, so only
// those are built whose name begins with a known op's.
bool knows(std::span<const Op> ops, const OpCase& op_case, DType dtype) {
  const std::string_view op = std::string_view(op_case.name).substr(0, op_case.name.find('/'));
  if (std::ranges::none_of(ops, [&](Op known) { return op_name(known) == op; })) return false;
  const BuiltCase built = op_case.build(dtype, true);
  return std::ranges::all_of(built.graph.nodes(),
                             [&](const Node& node) { return std::ranges::find(ops, node.op) != ops.end(); });
}

}  // namespace

std::vector<SuiteParameter> suite_of(std::string backend, std::function<std::unique_ptr<Backend>()> make_backend,
                                     std::span<const Op> ops, DType dtype) {
  std::vector<SuiteParameter> parameters;
  for (const OpCase& op_case : is_half(dtype) ? half_cases() : all_cases()) {
    if (ops.empty() || knows(ops, op_case, dtype)) parameters.push_back({backend, make_backend, op_case, dtype});
  }
  return parameters;
}

std::span<const Op> ops_with_halves() {
  static const std::vector<Op> ops = [] {
    std::vector<Op> found;
    for (std::size_t i = 0; i < kOpCount; ++i) {
      if (op_facts(static_cast<Op>(i)).takes_halves) found.push_back(static_cast<Op>(i));
    }
    return found;
  }();
  return ops;
}

std::string suite_test_name(const testing::TestParamInfo<SuiteParameter>& info) {
  return test_name(info.param.op_case);
}

}  // namespace plimsoll::test
