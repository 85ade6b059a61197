#include <fmt/format.h>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

struct NormShape {
  std::int64_t capacity;
  std::int32_t rows;
  std::int64_t width;
  double eps;
  Range range;
};

OpCase layer_norm_case(NormShape s) {
  return {fmt::format("layer_norm/n{}_of_{}_d{}_from_{}", s.rows, s.capacity, s.width, s.range.low),
          [s](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows, s.range);
            const ValueId gamma = b.wide_tensor("gamma", {s.width}, {0.5, 1.5});
            const ValueId beta = b.wide_tensor("beta", {s.width});
            b.objective(layer_norm(b.graph, "norm", x, gamma, beta, s.eps, b.rows(s.rows)).y);
          }};
}

OpCase affine_case(std::int64_t capacity, std::int32_t rows, std::int64_t width) {
  return {fmt::format("layer_norm_affine/n{}_of_{}_d{}", rows, capacity, width), [=](CaseBuilder& b) {
            const ValueId x = b.constant("normalized", {capacity, width}, rows);
            b.graph.add_node({.op = Op::kLayerNormAffine,
                              .name = "affine",
                              .inputs = {x, b.wide_constant("gamma", {width}), b.wide_constant("beta", {width})},
                              .row_count = b.rows(rows)});
          }};
}

}  // namespace

std::vector<OpCase> normalisation_cases() {
  std::vector<OpCase> cases;
  for (const NormShape& shape :
       {NormShape{7, 3, 12, 1e-5, {}}, NormShape{7, 0, 12, 1e-5, {}}, NormShape{3, 1, 5, 1e-6, {}},
        NormShape{33, 33, 24, 1e-5, {}}, NormShape{70, 67, 96, 1e-5, {}}, NormShape{5, 4, 1, 1e-5, {}},
        NormShape{9, 6, 768, 1e-6, {}}, NormShape{9, 6, 24, 1e-5, {9, 11}},  // a mean far from 0
        NormShape{9, 6, 24, 1e-5, {-1e-4, 1e-4}}}) {                         // a variance far below eps
    cases.push_back(layer_norm_case(shape));
  }
  cases.push_back(affine_case(7, 5, 12));
  cases.push_back(affine_case(7, 0, 5));
  cases.push_back(affine_case(33, 33, 100));
  return cases;
}

}  // namespace plimsoll::test
