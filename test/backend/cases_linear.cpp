#include <fmt/format.h>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

struct LinearShape {
  std::int64_t capacity;
  std::int32_t rows;  // -1: no row count
  std::int64_t in, out;
  bool bias;
};

// With `wide_weight` the weight is F32 and rows are halves: with an F16 encoder always, with adapters in any.
OpCase linear_case(LinearShape s, bool wide_weight = false) {
  const std::string name = fmt::format("linear/n{}_of_{}_k{}_m{}{}{}", s.rows, s.capacity, s.in, s.out,
                                       s.bias ? "_bias" : "", wide_weight ? "_wide_weight" : "");
  return {
      name, [s, wide_weight](CaseBuilder& b) {
        const ValueId x = b.tensor("x", {s.capacity, s.in}, s.rows);
        const ValueId weight = wide_weight ? b.wide_tensor("weight", {s.out, s.in}) : b.tensor("weight", {s.out, s.in});
        const ValueId bias = s.bias ? b.wide_tensor("bias", {s.out}) : kNoValue;
        b.objective(linear(b.graph, "y", x, weight, bias, s.rows < 0 ? kNoValue : b.rows(s.rows)));
      }};
}

OpCase coded_linear_case(LinearShape s, DType code) {
  const std::string name = fmt::format("linear/n{}_of_{}_k{}_m{}{}_{}", s.rows, s.capacity, s.in, s.out,
                                       s.bias ? "_bias" : "", dtype_name(code));
  return {name, [s, code](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {s.capacity, s.in}, s.rows);
            const ValueId weight = b.coded("weight", code, {s.out, s.in});
            const ValueId bias = s.bias ? b.wide_tensor("bias", {s.out}) : kNoValue;
            b.objective(linear(b.graph, "y", x, weight, bias, s.rows < 0 ? kNoValue : b.rows(s.rows)));
          }};
}

// Without a gradient. `code`: of the weight; kF32: it has none. Values that are far apart from row to row show whose
// factor each row has.
OpCase linear_int8_case(LinearShape s, DType code) {
  const std::string name = fmt::format("linear_int8/n{}_of_{}_k{}_m{}{}_{}", s.rows, s.capacity, s.in, s.out,
                                       s.bias ? "_bias" : "", dtype_name(code));
  return {
      name, [s, code](CaseBuilder& b) {
        std::vector<ValueId> inputs = {b.constant("x", {s.capacity, s.in}, s.rows)};
        inputs.push_back(is_coded(code) ? b.coded("weight", code, {s.out, s.in}) : b.constant("weight", {s.out, s.in}));
        if (s.bias) inputs.push_back(b.wide_constant("bias", {s.out}));
        b.graph.add_node({.op = Op::kLinearInt8,
                          .name = "y",
                          .inputs = inputs,
                          .row_count = s.rows < 0 ? kNoValue : b.rows(s.rows)});
      }};
}

OpCase linear_add_case(LinearShape s, bool wide_weight) {
  const std::string name =
      fmt::format("linear_add/n{}_of_{}_k{}_m{}{}", s.rows, s.capacity, s.in, s.out, wide_weight ? "_wide_weight" : "");
  return {
      name, [s, wide_weight](CaseBuilder& b) {
        const ValueId x = b.tensor("x", {s.capacity, s.in}, s.rows);
        const ValueId weight = wide_weight ? b.wide_tensor("weight", {s.out, s.in}) : b.tensor("weight", {s.out, s.in});
        const ValueId rows = s.rows < 0 ? kNoValue : b.rows(s.rows);
        // A sum that dies here, so that the product can be added in place.
        const ValueId addend = add(b.graph, "addend", b.tensor("a", {s.capacity, s.out}, s.rows),
                                   b.tensor("b", {s.capacity, s.out}, s.rows), rows);
        b.objective(linear_add(b.graph, "y", x, weight, addend, rows));
      }};
}

// A bias of the rows' type, as transform/rounded_parameters.h makes it; in single precision it is like any other.
OpCase narrow_bias_case(LinearShape s, bool wide_weight) {
  const std::string name = fmt::format("linear/n{}_of_{}_k{}_m{}_narrow_bias{}", s.rows, s.capacity, s.in, s.out,
                                       wide_weight ? "_wide_weight" : "");
  return {
      name, [=](CaseBuilder& b) {
        const ValueId x = b.tensor("x", {s.capacity, s.in}, s.rows);
        const ValueId weight = wide_weight ? b.wide_tensor("weight", {s.out, s.in}) : b.tensor("weight", {s.out, s.in});
        b.objective(linear(b.graph, "y", x, weight, b.constant("bias", {s.out}), b.rows(s.rows)));
      }};
}

OpCase input_grad_case(LinearShape s) {
  return {fmt::format("linear_input_grad/n{}_of_{}_k{}_m{}_adds", s.rows, s.capacity, s.in, s.out),
          [s](CaseBuilder& b) {
            const ValueId rows = s.rows < 0 ? kNoValue : b.rows(s.rows);
            // A sum that dies here, so that the product can be added in place.
            const ValueId addend = add(b.graph, "addend", b.constant("a", {s.capacity, s.in}, s.rows),
                                       b.constant("b", {s.capacity, s.in}, s.rows), rows);
            b.graph.add_node(
                {.op = Op::kLinearInputGrad,
                 .name = "dx",
                 .inputs = {b.constant("dy", {s.capacity, s.out}, s.rows), b.constant("weight", {s.out, s.in}), addend},
                 .row_count = rows,
                 .phase = Phase::kBackward});
          }};
}

OpCase weight_grad_case(LinearShape s, bool keep) {
  return {fmt::format("linear_weight_grad/n{}_of_{}_{}", s.rows, s.capacity, keep ? "adds" : "forgets"),
          [s, keep](CaseBuilder& b) {
            const ValueId dy = b.constant("dy", {s.capacity, s.out}, s.rows);
            const ValueId x = b.constant("x", {s.capacity, s.in}, s.rows);
            const ValueId sum = b.wide_state("sum", {s.out, s.in}, keep ? kAllRows : 0);  // overwritten: NaN
            b.graph.add_node({.op = Op::kLinearWeightGrad,
                              .name = "dweight",
                              .inputs = {dy, x, sum, b.integers("keep", {1}, {keep ? 1 : 0})},
                              .row_count = b.rows(s.rows),
                              .phase = Phase::kBackward});
          }};
}

OpCase bias_grad_case(std::int64_t capacity, std::int32_t rows, std::int64_t width, bool in_parts) {
  return {fmt::format("bias_grad/n{}_of_{}_d{}{}", rows, capacity, width, in_parts ? "_in_parts" : ""),
          [=](CaseBuilder& b) {
            b.add_sums({.op = Op::kBiasGrad,
                        .name = "dbias",
                        .inputs = {b.constant("dy", {capacity, width}, rows)},
                        .row_count = b.rows(rows),
                        .phase = Phase::kBackward},
                       in_parts);
          }};
}

// Partial sums of several nodes: of one sum each, of two, and of three.
OpCase add_partial_sums_case(int tensors) {
  return {
      fmt::format("add_partial_sums/{}_tensors", tensors), [=](CaseBuilder& b) {
        PartialSumsAttributes attributes;
        std::vector<ValueId> inputs;
        for (int i = 0; i < tensors; ++i) {
          const std::int64_t sums = i % 3 + 1, width = i % 7 == 3 ? 113 : 8 * (i % 5) + 1;
          attributes.sums.push_back(sums);
          inputs.push_back(b.wide_constant(fmt::format("parts{}", i), {i % 4 == 1 ? 257 : i % 4 + 1, sums * width}));
        }
        b.graph.add_node({.op = Op::kAddPartialSums,
                          .name = "sums",
                          .attributes = attributes,
                          .inputs = inputs,
                          .phase = Phase::kBackward});
      }};
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const LinearShape& shape :
       {LinearShape{7, 3, 12, 5, true}, LinearShape{7, 0, 12, 5, true}, LinearShape{7, 1, 5, 24, false},
        LinearShape{19, -1, 24, 7, true}, LinearShape{33, 17, 96, 13, true}, LinearShape{1, 1, 1, 1, false},
        LinearShape{70, 65, 5, 96, true}, LinearShape{300, 259, 24, 33, true}, LinearShape{130, 2, 160, 24, false},
        // These end in large groups, groups of 128, of 16, and smaller ones, with a packed weight and a narrow one.
        LinearShape{4200, 4199, 64, 66, true}, LinearShape{4200, 1300, 66, 64, true},
        LinearShape{2100, 800, 65, 64, false}, LinearShape{2300, 2299, 65, 3, true},
        LinearShape{2300, 2050, 2, 65, false},
        // A GPU pads the rows of what is so wide.
        LinearShape{9, 5, 12, 1037, true}, LinearShape{70, 70, 8, 1030, false}, LinearShape{4, 0, 12, 1037, false},
        LinearShape{9, 5, 1037, 12, true}, LinearShape{9, -1, 1034, 6, false}}) {
    cases.push_back(linear_case(shape));
  }
  for (const LinearShape& shape :
       {LinearShape{33, 17, 12, 4, true}, LinearShape{19, -1, 5, 24, false}, LinearShape{40, 33, 96, 80, true}}) {
    cases.push_back(linear_case(shape, true));
  }
  for (const LinearShape& shape :
       {LinearShape{7, 3, 12, 5, false}, LinearShape{7, 0, 12, 5, false}, LinearShape{19, -1, 8, 24, false},
        LinearShape{33, 17, 4, 13, false}, LinearShape{1, 1, 1, 1, false}, LinearShape{170, 149, 8, 33, false},
        LinearShape{21, 19, 72, 80, false}}) {
    for (const bool wide_weight : {false, true}) cases.push_back(linear_add_case(shape, wide_weight));
  }
  for (const LinearShape& shape : {LinearShape{7, 3, 12, 5, true}, LinearShape{7, 0, 12, 5, true},
                                   LinearShape{33, 17, 5, 8, true}, LinearShape{300, 259, 24, 34, true}}) {
    for (const bool wide_weight : {false, true}) cases.push_back(narrow_bias_case(shape, wide_weight));
  }
  for (const LinearShape& shape :
       {LinearShape{7, 3, 12, 5, false}, LinearShape{7, 0, 12, 5, false}, LinearShape{19, -1, 8, 24, false},
        LinearShape{33, 17, 5, 13, false}, LinearShape{300, 259, 66, 64, false}, LinearShape{2300, 2299, 64, 66, false},
        LinearShape{9, 5, 12, 1037, false}, LinearShape{9, 5, 1037, 12, false}}) {
    cases.push_back(input_grad_case(shape));
  }
  for (const DType code : {DType::kQ8, DType::kNF4}) {
    for (const LinearShape& shape :
         {LinearShape{7, 3, 12, 5, true}, LinearShape{7, 0, 12, 5, true}, LinearShape{19, -1, 64, 7, false},
          LinearShape{300, 259, 130, 258, true}, LinearShape{40, 33, 270, 70, true},
          LinearShape{20, 17, 1000, 270, true}}) {  // the last is multiplied tile by tile
      cases.push_back(coded_linear_case(shape, code));
    }
  }
  for (const DType code : {DType::kF32, DType::kQ8, DType::kNF4}) {
    for (const LinearShape& shape :
         {LinearShape{7, 3, 12, 5, true}, LinearShape{7, 0, 12, 5, true}, LinearShape{19, -1, 64, 7, false},
          LinearShape{1, 1, 1, 1, false}, LinearShape{300, 259, 130, 258, true}, LinearShape{40, 33, 270, 70, true},
          LinearShape{600, 599, 65, 33, false}}) {
      cases.push_back(linear_int8_case(shape, code));
    }
  }
  for (const bool keep : {false, true}) {
    for (const std::int32_t rows : {0, 1, 9, 11}) {
      cases.push_back(weight_grad_case({11, rows, 12, 7, false}, keep));
    }
    for (const std::int32_t rows : {383, 560}) {
      cases.push_back(weight_grad_case({4200, rows, 66, 64, false}, keep));
    }
    cases.push_back(weight_grad_case({21, 13, 12, 1037, false}, keep));
  }
  for (const std::int64_t width : {5, 12, 300}) {
    for (const std::int32_t rows : {0, 1, 64, 131}) {
      for (const bool in_parts : {false, true}) cases.push_back(bias_grad_case(140, rows, width, in_parts));
    }
  }
  for (const int tensors : {1, 9, 170}) cases.push_back(add_partial_sums_case(tensors));
  return cases;
}

}  // namespace plimsoll::test
