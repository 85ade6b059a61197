// Compares the results of two runs of the same nodes, value by value.
#pragma once

#include <gtest/gtest.h>

#include "backend/op_case.h"
#include "backend/tolerances.h"

namespace plimsoll::test {

// The largest fraction of its tolerance that an element uses: at most 1 if `found` is as close to `expected` as
// `tolerance` requires; infinite if sizes differ or only one of two elements is NaN.
double used_tolerance(std::span<const double> found, std::span<const double> expected, const Tolerance& tolerance);

// The tolerance of a node's output; zero for integers.
Tolerance tolerance_at(const Graph& graph, const Node& node, ValueId output);

// Expects every value of every node within the tolerance of its op; a failure names the value.
void expect_near(const Graph& graph, const GraphRunner& found, const GraphRunner& expected);
// Expects equality in every bit.
void expect_identical(const Graph& graph, const GraphRunner& found, const GraphRunner& expected);

}  // namespace plimsoll::test
