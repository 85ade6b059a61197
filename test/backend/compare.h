// Comparing what two runs of the same nodes made, value by value.
#pragma once

#include <gtest/gtest.h>

#include "backend/op_case.h"
#include "backend/tolerances.h"

namespace plimsoll::test {

// The largest share of its tolerance that an element uses: at most 1 if `found` is as near to `expected` as `tolerance`
// says; infinite where sizes differ or only one of two elements is a number.
double used_tolerance(std::span<const double> found, std::span<const double> expected, const Tolerance& tolerance);

// Of what a node made; zero for integers.
Tolerance tolerance_at(const Graph& graph, const Node& node, ValueId output);

// Every value that every node made, within the tolerance of its op; a failure names the value.
void expect_near(const Graph& graph, const GraphRunner& found, const GraphRunner& expected);
// … equal in every bit.
void expect_identical(const Graph& graph, const GraphRunner& found, const GraphRunner& expected);

}  // namespace plimsoll::test
