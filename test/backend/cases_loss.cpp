#include <fmt/format.h>

#include <array>

#include "backend/op_case.h"

namespace plimsoll::test {
namespace {

struct LossShape {
  std::string name;
  std::int64_t capacity, classes;
  std::vector<std::int32_t> labels;  // one for each real row
  Range range = {-3, 3};
};

OpCase cross_entropy_case(LossShape s, const CrossEntropyAttributes& attributes = {}, bool weighs = false) {
  const std::string kind = fmt::format("{}{}",
                                       attributes.label_smoothing > 0 ? "smoothed_"
                                       : attributes.focal_gamma >= 1  ? "focal_"
                                       : attributes.focal_gamma > 0   ? "slightly_focal_"
                                                                      : "",
                                       weighs ? "weighted_" : "");
  return {"cross_entropy/" + kind + s.name, [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.tensor("logits", {s.capacity, s.classes}, rows, s.range);
            const ValueId labels = b.integers("labels", {s.capacity}, s.labels);
            const ValueId scale = b.values("loss_scale", {wide(b.dtype()), {1}}, {0.21875});
            std::vector<ValueId> inputs = {logits, labels, scale};
            if (weighs) {
              std::vector<double> weights;
              for (std::int64_t c = 0; c < s.classes; ++c) weights.push_back(static_cast<double>(c % 5) / 2);
              inputs.push_back(b.values("class_weights", {wide(b.dtype()), {s.classes}}, weights));
            }
            b.objective_loss(b.graph.add_node({.op = Op::kCrossEntropy,
                                               .name = "loss",
                                               .attributes = attributes,
                                               .inputs = inputs,
                                               .row_count = b.rows(rows)})[0]);
          }};
}

OpCase label_scores_case(const LossShape& s) {
  return {"label_scores/" + s.name, [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.constant("logits", {s.capacity, s.classes}, rows, s.range);
            const ValueId labels = b.integers("labels", {s.capacity}, s.labels);
            b.graph.add_node(
                {.op = Op::kLabelScores, .name = "scores", .inputs = {logits, labels}, .row_count = b.rows(rows)});
          }};
}

OpCase softmax_sums_case(const LossShape& s) {
  return {"softmax_sums/" + s.name, [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.constant("logits", {s.capacity, s.classes}, rows, s.range);
            b.graph.add_node({.op = Op::kSoftmaxSums, .name = "sums", .inputs = {logits}, .row_count = b.rows(rows)});
          }};
}

// Classes [first, first + part) of s.classes. The sums are made as a whole's, and the part's logits are drawn below the
// largest.
OpCase cross_entropy_part_case(const LossShape& s, std::int64_t first, std::int64_t part) {
  return {fmt::format("cross_entropy_part/{}_from{}", s.name, first), [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.constant("logits", {s.capacity, part}, rows, s.range);
            const ValueId labels = b.integers("labels", {s.capacity}, s.labels);
            std::vector<double> sums;
            for (std::int32_t row = 0; row < rows; ++row) {
              sums.push_back(s.range.high - 0.125 * (row % 3));
              sums.push_back(1 + 0.375 * static_cast<double>(s.classes) / (1 + row));
            }
            b.graph.add_node({.op = Op::kCrossEntropyPart,
                              .name = "gradient",
                              .attributes = ClassPartAttributes{first},
                              .inputs = {logits, labels, b.values("sums", {wide(b.dtype()), {s.capacity, 2}}, sums),
                                         b.values("loss_scale", {wide(b.dtype()), {1}}, {0.21875})},
                              .row_count = b.rows(rows),
                              .phase = Phase::kBackward});
          }};
}

// Every class of the first row has as much: the first one is the largest.
OpCase equal_scores_case() {
  return {"label_scores/equal", [](CaseBuilder& b) {
            const ValueId logits = b.values("logits", {b.dtype(), {2, 40}}, std::vector<double>(80, 0.5));
            const ValueId labels = b.integers("labels", {2}, {0, 39});
            b.graph.add_node(
                {.op = Op::kLabelScores, .name = "scores", .inputs = {logits, labels}, .row_count = b.rows(2)});
          }};
}

struct ElementShape {
  std::string name;
  std::int64_t capacity, classes;
  std::int32_t rows;
  Range range = {-3, 3};
  double weight = 1;
};

OpCase element_loss_case(ElementLossAttributes::Kind kind, const ElementShape& s) {
  const bool binary = kind == ElementLossAttributes::Kind::kBinaryCrossEntropy;
  return {fmt::format("element_loss/{}_{}", binary ? "binary" : "squared", s.name), [=](CaseBuilder& b) {
            const ValueId logits = b.tensor("logits", {s.capacity, s.classes}, s.rows, s.range);
            std::vector<double> targets;
            for (std::int64_t i = 0; i < s.rows * s.classes; ++i) {
              targets.push_back(binary ? static_cast<double>(i % 3 == 1) : static_cast<double>(i % 7) / 4 - 1);
            }
            const ValueId wanted = b.values("targets", {b.dtype(), {s.capacity, s.classes}}, targets);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kElementLoss,
                                               .name = "loss",
                                               .attributes = ElementLossAttributes{kind, s.weight},
                                               .inputs = {logits, wanted, scale},
                                               .row_count = b.rows(s.rows)})[0]);
          }};
}

OpCase soft_cross_entropy_case(const LossShape& s, double temperature) {
  return {fmt::format("soft_cross_entropy/t{}_{}", temperature, s.name), [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.labels.size());
            const ValueId logits = b.tensor("logits", {s.capacity, s.classes}, rows, s.range);
            const ValueId teacher = b.constant("teacher", {s.capacity, s.classes}, rows, s.range);
            const ValueId labels = b.integers("labels", {s.capacity}, s.labels);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kSoftCrossEntropy,
                                               .name = "loss",
                                               .attributes = SoftTargetAttributes{temperature, 0.75},
                                               .inputs = {logits, teacher, labels, scale},
                                               .row_count = b.rows(rows)})[0]);
          }};
}

struct RelationShape {
  std::string name;
  std::int64_t capacity;
  std::vector<std::int32_t> offsets;  // of samples' rows; the last ones may be equal
  std::int64_t heads, width, teacher_width;
  Range range = {-1, 1};
};

OpCase relation_loss_case(const RelationShape& s) {
  return {"relation_loss/" + s.name, [=](CaseBuilder& b) {
            const std::int32_t rows = s.offsets.back();
            const ValueId x = b.tensor("x", {s.capacity, s.heads * s.width}, rows, s.range);
            const ValueId teacher = b.constant("teacher", {s.capacity, s.heads * s.teacher_width}, rows, s.range);
            const ValueId offsets =
                b.integers("sample_offsets", {static_cast<std::int64_t>(s.offsets.size())}, s.offsets);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kRelationLoss,
                                               .name = "loss",
                                               .attributes = RelationAttributes{.heads = s.heads, .weight = 1.5},
                                               .inputs = {x, teacher, offsets, scale},
                                               .row_count = b.rows(rows)})[0]);
          }};
}

struct SpanShape {
  std::string name;
  std::int64_t capacity;
  std::vector<std::int32_t> offsets;                 // of samples' rows; the last ones may be equal
  std::vector<std::vector<std::int32_t>> positions;  // of each sample, a number a column
  Range range = {-3, 3};
};

OpCase span_cross_entropy_case(const SpanShape& s) {
  return {"span_cross_entropy/" + s.name, [=](CaseBuilder& b) {
            const auto columns = static_cast<std::int64_t>(s.positions.front().size());
            const auto samples = static_cast<std::int64_t>(s.positions.size());
            const ValueId logits = b.tensor("logits", {s.capacity, columns}, s.offsets.back(), s.range);
            std::vector<std::int32_t> positions;
            for (const auto& of_sample : s.positions)
              positions.insert(positions.end(), of_sample.begin(), of_sample.end());
            const ValueId wanted = b.integers("positions", {samples, columns}, positions);
            const ValueId offsets = b.integers("sample_offsets", {samples + 1}, s.offsets);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kSpanCrossEntropy,
                                               .name = "loss",
                                               .inputs = {logits, wanted, offsets, scale},
                                               .row_count = b.rows(s.offsets.back())})[0]);
          }};
}

struct Pairs {
  std::int64_t samples, group, width, classes;
  bool some_count = false;  // as in training: the loss leaves most pairs out
};

OpCase pair_scores_case(const Pairs& s) {
  return {fmt::format("pair_scores/b{}_e{}_p{}_c{}{}", s.samples, s.group, s.width, s.classes,
                      s.some_count ? "_few_count" : ""),
          [s](CaseBuilder& b) {
            const std::int64_t rows = s.samples * s.group;
            const ValueId heads = b.tensor("heads", {rows, s.width}, rows);
            const ValueId tails = b.tensor("tails", {rows, s.classes * s.width}, rows);
            const ValueId head_terms = b.tensor("head_terms", {rows, s.classes}, rows);
            const ValueId tail_terms = b.tensor("tail_terms", {rows, s.classes}, rows);
            const ValueId scores = add_single(b.graph, {.op = Op::kPairScores,
                                                        .name = "scores",
                                                        .attributes = PairAttributes{s.group},
                                                        .inputs = {heads, tails, head_terms, tail_terms}});
            if (!s.some_count) {
              b.objective(scores);
              return;
            }
            std::vector<std::int32_t> labels;
            for (std::int64_t pair = 0; pair < rows * s.group; ++pair) {
              labels.push_back(pair % 5 == 2 ? static_cast<std::int32_t>(pair % s.classes) : -100);
            }
            b.objective_loss(b.graph.add_node({.op = Op::kCrossEntropy,
                                               .name = "loss",
                                               .attributes = CrossEntropyAttributes{},
                                               .inputs = {scores, b.integers("labels", {rows * s.group}, labels),
                                                          b.values("loss_scale", {b.dtype(), {1}}, {0.21875})}})[0]);
          }};
}

OpCase join_pairs_case(std::int64_t capacity, std::int32_t rows, std::int64_t width, bool products) {
  return {fmt::format("join_pairs/r{}_of_{}_k{}{}", rows, capacity, width, products ? "_products" : ""),
          [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {capacity, width}, rows);
            b.objective(add_single(b.graph, {.op = Op::kJoinPairs,
                                             .name = "joined",
                                             .attributes = JoinAttributes{products},
                                             .inputs = {x},
                                             .row_count = b.rows(rows)}));
          }};
}

struct ContrastShape {
  std::string name;
  std::int64_t capacity, width;
  std::vector<std::int32_t> groups;  // one for each real row
  double temperature = 0.05;
};

OpCase contrastive_loss_case(const ContrastShape& s) {
  return {"contrastive_loss/" + s.name, [=](CaseBuilder& b) {
            const auto rows = static_cast<std::int32_t>(s.groups.size());
            const ValueId x = b.tensor("x", {s.capacity, s.width}, rows);
            const ValueId groups = b.integers("groups", {s.capacity}, s.groups);
            const ValueId scale = b.values("loss_scale", {b.dtype(), {1}}, {0.21875});
            b.objective_loss(b.graph.add_node({.op = Op::kContrastiveLoss,
                                               .name = "loss",
                                               .attributes = ContrastiveAttributes{s.temperature},
                                               .inputs = {x, groups, scale},
                                               .row_count = b.rows(rows)})[0]);
          }};
}

std::vector<std::int32_t> pairs_of_groups(std::int32_t pairs, std::int32_t groups) {
  std::vector<std::int32_t> of_rows;
  for (std::int32_t pair = 0; pair < pairs; ++pair) of_rows.insert(of_rows.end(), 2, pair * 7 % groups);
  return of_rows;
}

OpCase cached_gradient_case(std::int64_t capacity, std::int32_t rows, std::int64_t width, std::int32_t first) {
  return {fmt::format("cached_gradient/r{}_of_{}_d{}_from_{}", rows, capacity, width, first), [=](CaseBuilder& b) {
            const ValueId x = b.tensor("x", {capacity, width}, rows);
            const ValueId table = b.constant("table", {first + rows + 2, width});
            b.objective_loss(b.graph.add_node({.op = Op::kCachedGradient,
                                               .name = "loss",
                                               .inputs = {x, table, b.integers("first", {1}, {first})},
                                               .row_count = b.rows(rows)})[0]);
          }};
}

OpCase put_rows_case(std::int64_t capacity, std::int32_t rows, std::int64_t width, std::int32_t first) {
  return {fmt::format("put_rows/r{}_of_{}_d{}_from_{}", rows, capacity, width, first), [=](CaseBuilder& b) {
            const ValueId table = b.state("table", {first + rows + 3, width});
            b.graph.add_node(
                {.op = Op::kPutRows,
                 .name = "put",
                 .inputs = {table, b.constant("rows", {capacity, width}, rows), b.integers("first", {1}, {first})},
                 .row_count = b.rows(rows)});
          }};
}

std::vector<std::int32_t> some_labels(std::int32_t rows, std::int32_t classes) {
  std::vector<std::int32_t> labels;
  for (std::int32_t row = 0; row < rows; ++row) labels.push_back(row % 3 == 1 ? -100 : row * 5 % classes);
  return labels;
}

std::vector<LossShape> small_losses() {
  return {{"plain", 7, 5, {0, 4, 2}},
          {"some_ignored", 7, 7, {-100, 3, -100, 6, 0, 0, -100}},
          {"all_ignored", 6, 7, {-100, -100, -100, -100}},
          {"no_rows", 4, 7, {}},
          {"one_class", 4, 1, {0, 0}},
          {"two_classes_many_rows", 70, 2, some_labels(67, 2)},
          {"many_classes", 33, 37, some_labels(29, 37)},
          {"large_logits", 9, 12, some_labels(8, 12), {-90, 90}},
          {"far_from_zero", 9, 12, some_labels(8, 12), {700, 703}}};
}

}  // namespace

std::vector<OpCase> head_loss_cases() {
  std::vector<OpCase> cases;
  for (const LossShape& shape : small_losses()) {
    cases.push_back(cross_entropy_case(shape));
    cases.push_back(label_scores_case(shape));
    cases.push_back(softmax_sums_case(shape));
    cases.push_back(cross_entropy_case(shape, {}, true));
    for (const bool weighs : {false, true}) {
      cases.push_back(cross_entropy_case(shape, {.label_smoothing = 0.1}, weighs));
      cases.push_back(cross_entropy_case(shape, {.focal_gamma = 2}, weighs));
    }
    cases.push_back(cross_entropy_case(shape, {.focal_gamma = 0.5}));
  }
  cases.push_back(equal_scores_case());
  for (const LossShape& shape : std::vector<LossShape>{{"vocabulary", 4, 1037, {-100, 1036, 0}},
                                                       {"vocabulary_large_logits", 2, 523, {17}, {-90, 90}},
                                                       {"vocabulary_far_from_zero", 2, 530, {529, 8}, {700, 703}}}) {
    cases.push_back(cross_entropy_case(shape));
    cases.push_back(cross_entropy_case(shape, {.label_smoothing = 0.1}));
    cases.push_back(cross_entropy_case(shape, {.focal_gamma = 2}));
    cases.push_back(label_scores_case(shape));
    cases.push_back(softmax_sums_case(shape));
    cases.push_back(cross_entropy_part_case(shape, 0, 19));
    cases.push_back(cross_entropy_part_case(shape, 512, shape.classes - 512));
  }
  return cases;
}

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (const LossShape& shape : small_losses()) {
    for (const double temperature : {1.0, 2.5}) cases.push_back(soft_cross_entropy_case(shape, temperature));
  }
  for (const ElementShape& shape : std::vector<ElementShape>{{"plain", 5, 3, 4},
                                                             {"one_column", 4, 1, 3},
                                                             {"no_rows", 4, 3, 0},
                                                             {"many", 70, 37, 67},
                                                             {"weighed", 5, 3, 4, {-3, 3}, 0.375},
                                                             {"large_logits", 9, 5, 8, {-90, 90}}}) {
    cases.push_back(element_loss_case(ElementLossAttributes::Kind::kBinaryCrossEntropy, shape));
    cases.push_back(element_loss_case(ElementLossAttributes::Kind::kSquaredError, shape));
  }
  for (const SpanShape& shape :
       std::vector<SpanShape>{{"plain", 9, {0, 3, 8}, {{0, 2}, {4, 4}}},
                              {"one_column", 6, {0, 5}, {{3}}},
                              {"some_ignored", 12, {0, 4, 5, 11}, {{-100, 1}, {-100, -100}, {5, -100}}},
                              {"unused_samples", 12, {0, 7, 7, 7}, {{6, 0}, {-100, -100}, {-100, -100}}},
                              {"no_rows", 4, {0, 0}, {{-100, -100}}},
                              {"long_samples", 230, {0, 131, 222}, {{130, 64}, {0, 90}}},
                              {"large_logits", 40, {0, 37}, {{3, 30}}, {-90, 90}},
                              {"far_from_zero", 40, {0, 37}, {{3, 30}}, {700, 703}}}) {
    cases.push_back(span_cross_entropy_case(shape));
  }
  for (const RelationShape& shape : std::vector<RelationShape>{{"plain", 9, {0, 3, 8}, 2, 4, 4},
                                                               {"one_head", 6, {0, 5}, 1, 12, 5},
                                                               {"one_row", 3, {0, 1, 2}, 3, 1, 2},
                                                               {"unused_samples", 12, {0, 7, 7, 7}, 2, 3, 8},
                                                               {"no_rows", 4, {0, 0}, 2, 4, 4},
                                                               {"several_tiles", 90, {0, 71, 83}, 2, 16, 7},
                                                               {"large_scores", 40, {0, 37}, 2, 8, 8, {-5, 5}}}) {
    cases.push_back(relation_loss_case(shape));
  }
  for (const Pairs& pairs : {Pairs{2, 3, 5, 2}, Pairs{1, 1, 1, 1}, Pairs{3, 4, 37, 3}, Pairs{1, 33, 24, 2},
                             Pairs{2, 5, 8, 2, true}, Pairs{1, 17, 130, 2, true}}) {
    cases.push_back(pair_scores_case(pairs));
  }
  for (const bool products : {false, true}) {
    for (const auto& [capacity, rows, width] :
         std::vector<std::array<int, 3>>{{8, 6, 5}, {4, 0, 3}, {7, 5, 3}, {2, 1, 4}, {40, 34, 37}, {6, 6, 1}}) {
      cases.push_back(join_pairs_case(capacity, rows, width, products));
    }
  }
  for (const ContrastShape& shape :
       std::vector<ContrastShape>{{"plain", 8, 5, {0, 0, 1, 1, 2, 2}},
                                  {"one_pair", 4, 5, {3, 3}},
                                  {"no_rows", 4, 5, {}},
                                  {"odd_rows", 8, 4, {0, 0, 1, 1, 2}},
                                  {"same_groups", 10, 6, {4, 4, 1, 1, 4, 4, 1, 1}},
                                  {"some_do_not_count", 10, 6, {0, 0, 1, 2, -100, -100, 3, 3}},
                                  {"warm", 12, 7, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, 1},
                                  {"many", 70, 37, pairs_of_groups(33, 19)},
                                  {"wide", 20, 130, pairs_of_groups(9, 30)}}) {
    cases.push_back(contrastive_loss_case(shape));
  }
  for (const auto& [capacity, rows, width, first] :
       std::vector<std::array<int, 4>>{{5, 3, 4, 0}, {5, 3, 4, 2}, {4, 0, 4, 1}, {150, 140, 9, 5}}) {
    cases.push_back(cached_gradient_case(capacity, rows, width, first));
    cases.push_back(put_rows_case(capacity, rows, width, first));
  }
  return cases;
}

}  // namespace plimsoll::test
