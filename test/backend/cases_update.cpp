// merge_row_grads, sum_squares, gradient_norm, adamw, adamw_rows: nodes of the update phase, which have no gradient
// rule. (accumulate is among the elementwise cases.)
#include <fmt/format.h>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

using Ids = std::vector<std::int32_t>;

OpCase merge_case(std::string name, std::int64_t capacity, Ids sum, std::int64_t added_capacity, Ids added, bool keep,
                  std::int64_t width) {
  return {"merge_row_grads/" + name, [=](CaseBuilder& b) {
            const auto count = [](const Ids& ids) { return static_cast<std::int32_t>(ids.size()); };
            const ValueId sum_ids = b.integer_state("sum_ids", {capacity}, sum);
            // A count that is to be forgotten may be anything.
            const ValueId sum_count = b.integer_state("sum_count", {1}, keep ? Ids{count(sum)} : Ids{});
            const ValueId sum_rows = b.state("sum_rows", {capacity, width}, keep ? count(sum) : 0);
            const ValueId ids = b.integers("ids", {added_capacity}, added);
            const ValueId rows = b.constant("rows", {added_capacity, width}, count(added));
            b.graph.add_node({.op = Op::kMergeRowGrads,
                              .name = "merged",
                              .inputs = {sum_ids, sum_count, sum_rows, ids, b.integers("count", {1}, {count(added)}),
                                         rows, b.integers("keep", {1}, {keep ? 1 : 0})},
                              .phase = Phase::kBackward});
          }};
}

OpCase sum_squares_case(std::int64_t capacity, std::int32_t rows, std::int64_t width) {
  return {fmt::format("sum_squares/n{}_of_{}_d{}", rows, capacity, width), [=](CaseBuilder& b) {
            b.graph.add_node({.op = Op::kSumSquares,
                              .name = "squares",
                              .inputs = {b.constant("x", {capacity, width}, rows)},
                              .row_count = rows == capacity ? kNoValue : b.rows(rows),
                              .phase = Phase::kUpdate});
          }};
}

OpCase gradient_norm_case(std::string name, double max_norm, std::vector<double> squares) {
  return {"gradient_norm/" + name, [=](CaseBuilder& b) {
            std::vector<ValueId> inputs = {b.values("max_grad_norm", {DType::kF32, {1}}, {max_norm})};
            for (std::size_t i = 0; i < squares.size(); ++i) {
              inputs.push_back(b.values(fmt::format("squares_{}", i), {DType::kF64, {1}}, {squares[i]}));
            }
            b.graph.add_node({.op = Op::kGradientNorm, .name = "norm", .inputs = inputs, .phase = Phase::kUpdate});
          }};
}

struct Update {
  std::string name;
  std::int32_t step;
  double learning_rate, clip;
  AdamWAttributes attributes = {.weight_decay = 0.01};
};

// learning_rate, step, clip
std::vector<ValueId> update_scalars(CaseBuilder& b, const Update& update) {
  return {b.values("learning_rate", {DType::kF32, {1}}, {update.learning_rate}), b.integers("step", {1}, {update.step}),
          b.values("clip", {DType::kF32, {1}}, {update.clip})};
}

OpCase adamw_case(Shape shape, Update update) {
  return {"adamw/" + update.name, [=](CaseBuilder& b) {
            std::vector<ValueId> inputs = {b.state("parameter", shape), b.state("m", shape),
                                           b.state("v", shape, kAllRows, {0, 1}), b.constant("gradient", shape)};
            for (const ValueId scalar : update_scalars(b, update)) inputs.push_back(scalar);
            b.graph.add_node({.op = Op::kAdamW,
                              .name = "update",
                              .attributes = update.attributes,
                              .inputs = inputs,
                              .phase = Phase::kUpdate});
          }};
}

OpCase adamw_rows_case(Shape shape, Ids ids, std::int64_t capacity, Update update) {
  return {"adamw_rows/" + update.name, [=](CaseBuilder& b) {
            const auto count = static_cast<std::int32_t>(ids.size());
            std::vector<ValueId> inputs = {
                b.state("parameter", shape),           b.state("m", shape),
                b.state("v", shape, kAllRows, {0, 1}), b.integers("ids", {capacity}, ids),
                b.integers("count", {1}, {count}),     b.constant("rows", {capacity, shape[1]}, count)};
            for (const ValueId scalar : update_scalars(b, update)) inputs.push_back(scalar);
            b.graph.add_node({.op = Op::kAdamWRows,
                              .name = "update",
                              .attributes = update.attributes,
                              .inputs = inputs,
                              .phase = Phase::kUpdate});
          }};
}

}  // namespace

std::vector<OpCase> update_cases() {
  return {
      merge_case("interleaved", 9, {1, 4, 7}, 5, {2, 4, 9}, true, 12),
      merge_case("all_before", 9, {11, 12}, 5, {2, 4, 9}, true, 5),
      merge_case("all_behind", 9, {1, 2}, 5, {3, 4, 9}, true, 24),
      merge_case("the_same_ids_at_full_capacity", 3, {1, 4, 7}, 3, {1, 4, 7}, true, 5),
      merge_case("fills_the_capacity", 5, {0, 3, 8}, 3, {1, 3, 9}, true, 33),
      merge_case("nothing_added", 4, {1, 4}, 3, {}, true, 5),
      merge_case("onto_nothing", 4, {}, 3, {5, 6}, true, 5),
      merge_case("nothing_onto_nothing", 4, {}, 3, {}, true, 5),
      merge_case("forgets", 6, {}, 5, {2, 4, 9}, false, 12),
      merge_case("forgets_for_nothing", 6, {}, 5, {}, false, 12),
      sum_squares_case(7, 3, 12),
      sum_squares_case(7, 0, 5),
      sum_squares_case(33, 33, 24),
      sum_squares_case(1, 1, 1),
      sum_squares_case(261, 259, 97),
      gradient_norm_case("clips", 1.0, {0.5, 2.25, 17.0}),
      gradient_norm_case("leaves", 10.0, {0.5, 2.25}),
      gradient_norm_case("of_nothing", 1.0, {0.0}),
      gradient_norm_case("off", 0.0, {1e6}),
      gradient_norm_case("many", 2.5, std::vector<double>(41, 0.75)),
      adamw_case({5, 7}, {"first_step", 1, 1e-3, 1.0}),
      adamw_case({13}, {"later_clipped", 57, 5e-5, 0.125}),
      adamw_case({3, 4, 5}, {"no_decay", 3, 1e-2, 1.0, {.weight_decay = 0}}),
      adamw_case({33, 65},
                 {"other_betas", 10000, 1e-3, 0.5, {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1}}),
      adamw_rows_case({11, 12}, {0, 3, 10}, 6, {"some_rows", 4, 1e-3, 0.5}),
      adamw_rows_case({7, 5}, {}, 3, {"no_rows", 2, 1e-3, 1.0}),
      adamw_rows_case({5, 33}, {0, 1, 2, 3, 4}, 5, {"all_rows", 1, 1e-2, 1.0, {.weight_decay = 0}}),
  };
}

}  // namespace plimsoll::test
