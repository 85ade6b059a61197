#include <fmt/format.h>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

struct LossShape {
  std::string name;
  std::int64_t capacity, classes;
  std::vector<std::int32_t> labels;  // one for each real row
  Range range = {-3, 3};
};

OpCase cross_entropy_case(LossShape s) {
  return {"cross_entropy/" + s.name, [s](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.tensor("logits", {s.capacity, s.classes}, rows, s.range);
            const ValueId labels = b.integers("labels", {s.capacity}, s.labels);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kCrossEntropy,
                                               .name = "loss",
                                               .inputs = {logits, labels, scale},
                                               .row_count = b.rows(rows)})[0]);
          }};
}

std::vector<std::int32_t> some_labels(std::int32_t rows, std::int32_t classes) {
  std::vector<std::int32_t> labels;
  for (std::int32_t row = 0; row < rows; ++row) labels.push_back(row % 3 == 1 ? -100 : row * 5 % classes);
  return labels;
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (const LossShape& shape : std::vector<LossShape>{{"plain", 7, 5, {0, 4, 2}},
                                                       {"some_ignored", 7, 7, {-100, 3, -100, 6, 0, 0, -100}},
                                                       {"all_ignored", 6, 7, {-100, -100, -100, -100}},
                                                       {"no_rows", 4, 7, {}},
                                                       {"one_class", 4, 1, {0, 0}},
                                                       {"two_classes_many_rows", 70, 2, some_labels(67, 2)},
                                                       {"many_classes", 33, 37, some_labels(29, 37)},
                                                       {"large_logits", 9, 12, some_labels(8, 12), {-90, 90}},
                                                       {"far_from_zero", 9, 12, some_labels(8, 12), {700, 703}}}) {
    cases.push_back(cross_entropy_case(shape));
  }
  return cases;
}

}  // namespace plimsoll::test
