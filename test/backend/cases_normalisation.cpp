#include <fmt/format.h>

#include "backend/cuda/sizes/sums.h"
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

// Of residual + x; `p`: x's dropout.
OpCase residual_norm_case(NormShape s, double p) {
  return {fmt::format("layer_norm/n{}_of_{}_d{}_residual_p{}", s.rows, s.capacity, s.width, p), [=](CaseBuilder& b) {
            const ValueId rows = b.rows(s.rows);
            std::vector<ValueId> inputs = {
                b.tensor("x", {s.capacity, s.width}, s.rows, s.range), b.wide_tensor("gamma", {s.width}, {0.5, 1.5}),
                b.wide_tensor("beta", {s.width}), b.tensor("residual", {s.capacity, s.width}, s.rows)};
            if (p > 0) inputs.insert(inputs.end(), {b.row_keys(s.capacity, s.rows), b.dropout_key()});
            b.objective(b.graph.add_node({.op = Op::kLayerNorm,
                                          .name = "norm",
                                          .attributes = LayerNormAttributes{.eps = s.eps, .dropout_p = p, .site = 4},
                                          .inputs = inputs,
                                          .row_count = rows})[0]);
          }};
}

// With the sums of its columns, or without; `in_parts`: these, and the gradients of gamma and beta.
OpCase norm_grad_case(NormShape s, double p, bool sums, bool in_parts) {
  return {fmt::format("layer_norm_grad/n{}_of_{}_d{}_p{}{}{}", s.rows, s.capacity, s.width, p, sums ? "_sums" : "",
                      in_parts ? "_in_parts" : ""),
          [=](CaseBuilder& b) {
            std::vector<ValueId> inputs = {b.constant("dy", {s.capacity, s.width}, s.rows),
                                           b.constant("normalized", {s.capacity, s.width}, s.rows),
                                           b.wide_constant("rstd", {s.capacity}, {0.5, 2}),
                                           b.wide_constant("gamma", {s.width}, {0.5, 1.5})};
            if (p > 0) inputs.insert(inputs.end(), {b.row_keys(s.capacity, s.rows), b.dropout_key()});
            b.add_sums({.op = Op::kLayerNormGrad,
                        .name = "dx",
                        .attributes = LayerNormAttributes{.eps = s.eps, .dropout_p = p, .site = 4, .column_sums = sums},
                        .inputs = inputs,
                        .row_count = b.rows(s.rows),
                        .phase = Phase::kBackward},
                       in_parts);
          }};
}

struct GroupShape {
  std::int64_t capacity;
  std::int32_t rows;
  std::int64_t groups, width;
};

OpCase rms_norm_case(GroupShape s, Range range) {
  return {fmt::format("rms_norm/n{}_of_{}_{}x{}_to_{}", s.rows, s.capacity, s.groups, s.width, range.high),
          [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.groups * s.width}, s.rows, range);
            b.objective(b.graph.add_node({.op = Op::kRmsNorm,
                                          .name = "norm",
                                          .attributes = RmsNormAttributes{.eps = 1e-5},
                                          .inputs = {x, b.wide_tensor("gamma", {s.width}, {0.5, 1.5})},
                                          .row_count = b.rows(s.rows)})[0]);
          }};
}

OpCase rms_norm_grad_case(GroupShape s) {
  return {fmt::format("rms_norm_grad/n{}_of_{}_{}x{}_in_parts", s.rows, s.capacity, s.groups, s.width),
          [=](CaseBuilder& b) {
            const Shape rows{s.capacity, s.groups * s.width};
            b.add_sums({.op = Op::kRmsNormGrad,
                        .name = "dx",
                        .attributes = RmsNormAttributes{.eps = 1e-5},
                        .inputs = {b.constant("dy", rows, s.rows), b.constant("normalized", rows, s.rows),
                                   b.wide_constant("rstd", {s.capacity, s.groups}, {0.5, 2}),
                                   b.wide_constant("gamma", {s.width}, {0.5, 1.5})},
                        .row_count = b.rows(s.rows),
                        .phase = Phase::kBackward},
                       true);
          }};
}

OpCase rotary_case(GroupShape s) {
  return {fmt::format("rotary/n{}_of_{}_{}x{}", s.rows, s.capacity, s.groups, s.width), [=](CaseBuilder& b) {
            std::vector<std::int32_t> positions;
            for (std::int32_t row = 0; row < s.rows; ++row) positions.push_back(b.random_integer(0, 8192));
            const ValueId rows = b.rows(s.rows);
            const ValueId table =
                add_single(b.graph, {.op = Op::kRotaryTable,
                                     .name = "table",
                                     .inputs = {b.integers("positions", {s.capacity}, positions),
                                                b.wide_constant("frequencies", {s.width / 2}, {0, 1})},
                                     .row_count = rows});
            b.objective(add_single(b.graph, {.op = Op::kRotary,
                                             .name = "y",
                                             .attributes = RotaryAttributes{},
                                             .inputs = {b.tensor("x", {s.capacity, s.groups * s.width}, s.rows), table},
                                             .row_count = rows}));
          }};
}

OpCase affine_case(std::int64_t capacity, std::int32_t rows, std::int64_t width, bool shifts) {
  return {fmt::format("affine/n{}_of_{}_d{}{}", rows, capacity, width, shifts ? "" : "_without_beta"),
          [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {capacity, width}, rows), gamma = b.wide_tensor("gamma", {width});
            const ValueId beta = shifts ? b.wide_tensor("beta", {width}) : kNoValue;
            b.objective(affine(b.graph, "y", x, gamma, beta, b.rows(rows)));
          }};
}

// Code kF32: the weight is of the case's type.
OpCase row_norms_case(std::int64_t rows, std::int64_t width, std::int64_t rank, double factor, DType code) {
  return {fmt::format("inverse_row_norms/m{}_k{}_r{}_by_{}_{}", rows, width, rank, factor, dtype_name(code)),
          [=](CaseBuilder& b) {
            const ValueId weight =
                is_coded(code) ? b.coded("weight", code, {rows, width}) : b.constant("weight", {rows, width});
            inverse_row_norms(b.graph, "norms", weight, b.wide_constant("a", {rank, width}),
                              b.wide_constant("b", {rows, rank}), factor);
          }};
}

}  // namespace

std::vector<OpCase> normalisation_cases() {
  std::vector<OpCase> cases;
  for (const NormShape& shape :
       {NormShape{7, 3, 12, 1e-5, {}}, NormShape{7, 0, 12, 1e-5, {}}, NormShape{3, 1, 5, 1e-6, {}},
        NormShape{33, 33, 24, 1e-5, {}}, NormShape{70, 67, 96, 1e-5, {}}, NormShape{5, 4, 1, 1e-5, {}},
        NormShape{9, 6, 768, 1e-6, {}}, NormShape{9, 6, 24, 1e-5, {9, 11}},  // a mean far from 0
        NormShape{9, 6, 24, 1e-5, {-1e-4, 1e-4}},                            // a variance far below eps
        // Rows that a warp of a GPU holds whole, in parts of its registers, and that it does not.
        NormShape{70, 66, 516, 1e-5, {}}, NormShape{5, 4, 1000, 1e-5, {}}, NormShape{6, 5, 1030, 1e-5, {}},
        NormShape{6, 5, 1152, 1e-5, {}}}) {
    cases.push_back(layer_norm_case(shape));
  }
  for (const NormShape& shape :
       {NormShape{7, 3, 12, 1e-5, {}}, NormShape{7, 0, 12, 1e-5, {}}, NormShape{9, 7, 5, 1e-6, {}},
        NormShape{140, 131, 24, 1e-5, {}}, NormShape{9, 6, 768, 1e-6, {}}, NormShape{70, 66, 516, 1e-5, {}},
        NormShape{6, 5, 1030, 1e-5, {}}, NormShape{70, 67, 1152, 1e-5, {}}}) {
    for (const double p : {0.0, 0.1}) {
      cases.push_back(residual_norm_case(shape, p));
      cases.push_back(norm_grad_case(shape, p, true, false));
      if (!cuda::holds_rows(shape.width)) continue;  // else a GPU has whole sums alone
      for (const bool sums : {false, true}) cases.push_back(norm_grad_case(shape, p, sums, true));
    }
  }
  for (const GroupShape& shape :
       {GroupShape{7, 3, 1, 12}, GroupShape{7, 0, 2, 8}, GroupShape{3, 1, 3, 5}, GroupShape{33, 33, 1, 24},
        GroupShape{70, 67, 4, 32}, GroupShape{5, 4, 7, 3}, GroupShape{6, 5, 1, 1030}, GroupShape{140, 131, 2, 64}}) {
    cases.push_back(rms_norm_case(shape, {}));
    cases.push_back(rms_norm_grad_case(shape));
  }
  cases.push_back(rms_norm_case({9, 6, 1, 24}, {-1e-4, 1e-4}));  // far below eps
  for (const GroupShape& shape : {GroupShape{7, 3, 1, 2}, GroupShape{7, 0, 2, 8}, GroupShape{9, 7, 3, 10},
                                  GroupShape{33, 33, 2, 64}, GroupShape{70, 67, 1, 80}, GroupShape{5, 4, 5, 128}}) {
    cases.push_back(rotary_case(shape));
  }
  for (const bool shifts : {false, true}) {
    cases.push_back(affine_case(7, 5, 12, shifts));
    cases.push_back(affine_case(7, 0, 5, shifts));
    cases.push_back(affine_case(33, 33, 100, shifts));
  }
  for (const DType code : {DType::kF32, DType::kQ8, DType::kNF4}) {
    cases.push_back(row_norms_case(1, 1, 1, 1, code));
    cases.push_back(row_norms_case(5, 24, 3, -0.5, code));
    cases.push_back(row_norms_case(33, 130, 4, 2, code));
    cases.push_back(row_norms_case(70, 600, 17, 0.25, code));
  }
  return cases;
}

}  // namespace plimsoll::test
