#include <fmt/format.h>

#include "backend/op_case.h"
#include "base/dropout.h"

namespace plimsoll::test {
namespace {

struct Rows {
  std::int64_t capacity;
  std::int32_t rows;
  std::int64_t width;
};
constexpr Rows kShapes[] = {{7, 3, 12}, {7, 0, 5}, {3, 1, 24}, {33, 33, 5}, {70, 67, 96}};

std::string label(std::string_view op, const Rows& s) {
  return fmt::format("{}/n{}_of_{}_d{}", op, s.rows, s.capacity, s.width);
}

OpCase add_case(Rows s) {
  return {label("add", s), [s](CaseBuilder& b) {
            const ValueId x = b.tensor("a", {s.capacity, s.width}, s.rows);
            b.objective(add(b.graph, "y", x, b.tensor("b", {s.capacity, s.width}, s.rows), b.rows(s.rows)));
          }};
}

OpCase multiply_case(Rows s) {
  return {label("multiply", s), [s](CaseBuilder& b) {
            const ValueId x = b.tensor("a", {s.capacity, s.width}, s.rows);
            b.objective(multiply(b.graph, "y", x, b.tensor("b", {s.capacity, s.width}, s.rows), b.rows(s.rows)));
          }};
}

OpCase map_case(Op op, Rows s, Range range) {
  return {label(op_name(op), s) + fmt::format("_to_{}", range.high), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows, range);
            b.objective(add_single(b.graph, {.op = op, .name = "y", .inputs = {x}, .row_count = b.rows(s.rows)}));
          }};
}

// In double, where finite differences are taken, it casts to the same type.
OpCase cast_case(DType to, Rows s) {
  return {label("cast", s) + fmt::format("_to_{}", dtype_name(to)), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows, {-3, 3});
            b.objective(add_single(b.graph, {.op = Op::kCast,
                                             .name = "y",
                                             .attributes = CastAttributes{b.dtype() == DType::kF64 ? DType::kF64 : to},
                                             .inputs = {x},
                                             .row_count = b.rows(s.rows)}));
          }};
}

// Several at once, of other ranks too.
OpCase casts_case(DType to) {
  return {fmt::format("cast/several_to_{}", dtype_name(to)), [=](CaseBuilder& b) {
            std::vector<ValueId> inputs;
            for (const Shape& shape : {Shape{37}, Shape{1}, Shape{5, 7}, Shape{2, 3, 4}, Shape{300}}) {
              inputs.push_back(b.constant(fmt::format("x{}", inputs.size()), shape, kAllRows, {-3, 3}));
            }
            b.graph.add_node({.op = Op::kCast,
                              .name = "y",
                              .attributes = CastAttributes{b.dtype() == DType::kF64 ? DType::kF64 : to},
                              .inputs = inputs});
          }};
}

OpCase tanh_gelu_case(Rows s, Range range) {
  return {label("gelu", s) + fmt::format("_by_tanh_to_{}", range.high), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows, range);
            b.objective(add_single(b.graph, {.op = Op::kGelu,
                                             .name = "y",
                                             .attributes = GeluAttributes{.by_tanh = true},
                                             .inputs = {x},
                                             .row_count = b.rows(s.rows)}));
          }};
}

OpCase silu_multiply_case(Rows s, Range range) {
  return {label("silu_multiply", s) + fmt::format("_to_{}", range.high), [=](CaseBuilder& b) {
            const ValueId gate = b.tensor("gate", {s.capacity, s.width}, s.rows, range);
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows);
            b.objective(add_single(
                b.graph, {.op = Op::kSiluMultiply, .name = "y", .inputs = {gate, x}, .row_count = b.rows(s.rows)}));
          }};
}

OpCase gelu_grad_case(Rows s, bool by_tanh, bool in_parts) {
  return {label("gelu_grad", s) + (by_tanh ? "_by_tanh" : "") + "_sums" + (in_parts ? "_in_parts" : ""),
          [=](CaseBuilder& b) {
            b.add_sums({.op = Op::kGeluGrad,
                        .name = "dx",
                        .attributes = GeluAttributes{.by_tanh = by_tanh, .column_sums = true},
                        .inputs = {b.constant("dy", {s.capacity, s.width}, s.rows),
                                   b.constant("x", {s.capacity, s.width}, s.rows, {-3, 3})},
                        .row_count = b.rows(s.rows),
                        .phase = Phase::kBackward},
                       in_parts);
          }};
}

OpCase scale_case(double factor, Rows s) {
  return {label("scale", s) + fmt::format("_by_{}", factor), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows);
            b.objective(scale(b.graph, "y", x, factor, b.rows(s.rows)));
          }};
}

OpCase dropout_case(Rows s, double p) {
  return {label("dropout", s) + fmt::format("_p{}", p), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows);
            const ValueId row_keys = b.row_keys(s.capacity, s.rows), key = b.dropout_key();
            b.objective(dropout(b.graph, "y", x, row_keys, key, {.p = p, .site = 3}, b.rows(s.rows)));
          }};
}

// Into another type. In double, where finite differences are taken, into the same.
OpCase dropout_cast_case(DType to, Rows s) {
  return {label("dropout", s) + fmt::format("_to_{}", dtype_name(to)), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.width}, s.rows);
            const ValueId row_keys = b.row_keys(s.capacity, s.rows), key = b.dropout_key();
            const DropoutAttributes attributes{.p = 0.3, .site = 4, .to = b.dtype() == DType::kF64 ? DType::kF64 : to};
            b.objective(dropout(b.graph, "y", x, row_keys, key, attributes, b.rows(s.rows)));
          }};
}

OpCase accumulate_case(Rows s, bool keep) {
  return {label("accumulate", s) + (keep ? "_adds" : "_forgets"), [=](CaseBuilder& b) {
            const ValueId sum = b.state("sum", {s.capacity, s.width}, keep ? s.rows : 0);  // overwritten: NaN
            const ValueId x = b.constant("x", {s.capacity, s.width}, s.rows);
            b.graph.add_node({.op = Op::kAccumulate,
                              .name = "sum",
                              .inputs = {sum, x, b.integers("keep", {1}, {keep ? 5 : 0})},
                              .row_count = s.rows == s.capacity ? kNoValue : b.rows(s.rows),
                              .phase = Phase::kBackward});
          }};
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (const Rows& shape : kShapes) {
    cases.push_back(add_case(shape));
    cases.push_back(multiply_case(shape));
    for (const Op op : {Op::kGelu, Op::kTanh, Op::kRelu}) cases.push_back(map_case(op, shape, {-3, 3}));
    for (const bool keep : {false, true}) cases.push_back(accumulate_case(shape, keep));
    cases.push_back(dropout_case(shape, 0.1));
    cases.push_back(scale_case(2, shape));
    cases.push_back(scale_case(-0.3, shape));
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16}) cases.push_back(cast_case(to, shape));
    for (const bool by_tanh : {false, true}) {
      for (const bool in_parts : {false, true}) cases.push_back(gelu_grad_case(shape, by_tanh, in_parts));
    }
    cases.push_back(tanh_gelu_case(shape, {-3, 3}));
    cases.push_back(silu_multiply_case(shape, {-3, 3}));
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16}) cases.push_back(dropout_cast_case(to, shape));
  }
  for (const bool in_parts : {false, true}) cases.push_back(gelu_grad_case({140, 131, 520}, false, in_parts));
  for (const DType to : {DType::kF32, DType::kBF16, DType::kF16}) cases.push_back(casts_case(to));
  cases.push_back(dropout_case({70, 67, 37}, 0.5));
  for (const double limit : {0.01, 12.0, 40.0}) {
    for (const Op op : {Op::kGelu, Op::kTanh}) cases.push_back(map_case(op, {9, 7, 29}, {-limit, limit}));
    cases.push_back(tanh_gelu_case({9, 7, 29}, {-limit, limit}));
    cases.push_back(silu_multiply_case({9, 7, 29}, {-limit, limit}));
  }
  cases.push_back({"add/the_same_value_twice", [](CaseBuilder& b) {
                     const ValueId x = b.tensor("x", {5, 7}, 4);
                     b.objective(add(b.graph, "y", x, x, b.rows(4)));
                   }});
  cases.push_back({"add/no_row_count_rank_3", [](CaseBuilder& b) {
                     const ValueId x = b.tensor("a", {3, 5, 7});
                     b.objective(add(b.graph, "y", x, b.tensor("b", {3, 5, 7}), kNoValue));
                   }});
  cases.push_back({"multiply/the_same_vector_twice", [](CaseBuilder& b) {
                     const ValueId x = b.tensor("x", {37});
                     b.objective(multiply(b.graph, "y", x, x, kNoValue));
                   }});
  return cases;
}

}  // namespace plimsoll::test
