#include "plan/cost.h"

#include <gtest/gtest.h>

#include "graph/build.h"
#include "graph/op_facts.h"

namespace plimsoll {
namespace {

// x [rows, 96] times a weight [64, 96], plain and added to what is there.
struct Products {
  Graph graph;
  Node linear, linear_add;

  explicit Products(DType dtype) {
    const ValueId x = graph.add_input("x", {dtype, {300, 96}});
    const ValueId weight = graph.add_parameter("weight", {dtype, {64, 96}});
    const ValueId y = plimsoll::linear(graph, "linear", x, weight, kNoValue, kNoValue);
    graph.add_node({.op = Op::kLinearAdd, .name = "linear_add", .inputs = {x, weight, y}});
    linear = graph.nodes()[0];
    linear_add = graph.nodes()[1];
  }
};

TEST(Cost, ALinearMapCountsItsMultiplyAdds) {
  const Products products(DType::kF32);
  EXPECT_EQ(op_facts(Op::kLinear).work(products.graph, products.linear), 300.0 * 96 * 64);
}

TEST(Cost, AnAddedLinearMapCostsWhatALinearMapCosts) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Products products(dtype);
    OpSpeeds speeds;
    for (const Op op : {Op::kLinear, Op::kLinearAdd}) {
      const Op like = op_facts(op).priced_like;
      speeds.seconds_per_unit[static_cast<std::size_t>(op)] = like == Op::kLinear ? 2e-11 : 1e-9;
      speeds.seconds_per_unit[kSpeedForms + static_cast<std::size_t>(op)] = like == Op::kLinear ? 1e-11 : 1e-9;
    }
    const double expected = speeds.seconds(products.graph, products.linear);
    EXPECT_GT(expected, 0);
    EXPECT_EQ(speeds.seconds(products.graph, products.linear_add), expected) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace plimsoll
