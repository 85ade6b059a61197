// merge_row_grads, sum_squares, gradient_norm, adamw and adafactor in all their forms: nodes of the update phase, which
// have no gradient rule. (accumulate is among the elementwise cases.)
#include <fmt/format.h>

#include <limits>
#include <optional>

#include "backend/op_case.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"
#include "tensor/half.h"
#include "tensor/split_float.h"

namespace plimsoll::test {
namespace {

using Ids = std::vector<std::int32_t>;

// Returns `count` ids, `apart` from each other.
Ids ids_of(std::int32_t count, std::int32_t apart) {
  Ids ids;
  for (std::int32_t i = 0; i < count; ++i) ids.push_back(i * apart);
  return ids;
}

OpCase merge_case(std::string name, std::int64_t capacity, Ids sum, std::int64_t added_capacity, Ids added, bool keep,
                  std::int64_t width) {
  return {"merge_row_grads/" + name, [=](CaseBuilder& b) {
            const auto count = [](const Ids& ids) { return static_cast<std::int32_t>(ids.size()); };
            const ValueId sum_ids = b.integer_state("sum_ids", {capacity}, sum);
            // A count that will be overwritten may be anything.
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

// Of several tensors, more than one start takes; some of one block of elements, some of several, some of none.
OpCase joined_sums_case(int tensors) {
  return {fmt::format("sum_squares/{}_tensors", tensors), [=](CaseBuilder& b) {
            std::vector<ValueId> inputs;
            for (int i = 0; i < tensors; ++i) {
              const std::int64_t rows = i % 7 == 3 ? 97 : i % 5, width = i % 7 == 3 ? 113 : 8 * (i % 3) + 1;
              inputs.push_back(b.constant(fmt::format("x{}", i), {rows, width}, rows));
            }
            b.graph.add_node({.op = Op::kSumSquares, .name = "squares", .inputs = inputs, .phase = Phase::kUpdate});
          }};
}

OpCase slice_case(std::string name, Shape shape, std::int64_t first, std::int64_t count) {
  return {"slice/" + name, [=](CaseBuilder& b) {
            b.graph.add_node({.op = Op::kSlice,
                              .name = "slice",
                              .attributes = SliceAttributes{.first = first, .count = count},
                              .inputs = {b.constant("x", shape, shape[0])},
                              .phase = Phase::kUpdate});
          }};
}

OpCase gradient_norm_case(std::string name, double max_norm, std::vector<double> squares, double unscale = 0) {
  return {"gradient_norm/" + name, [=](CaseBuilder& b) {
            std::vector<ValueId> inputs = {b.values("max_grad_norm", {DType::kF32, {1}}, {max_norm})};
            if (unscale > 0) inputs.push_back(b.values("unscale", {DType::kF32, {1}}, {unscale}));
            for (std::size_t i = 0; i < squares.size(); ++i) {
              inputs.push_back(b.values(fmt::format("squares_{}", i), {DType::kF64, {1}}, {squares[i]}));
            }
            b.graph.add_node({.op = Op::kGradientNorm,
                              .name = "norm",
                              .attributes = GradientNormAttributes{unscale > 0},
                              .inputs = inputs,
                              .phase = Phase::kUpdate});
          }};
}

struct Update {
  std::string name;
  std::int32_t step;
  double learning_rate, clip;
  AdamWAttributes attributes = {.weight_decay = 0.01};
};

// Returns learning_rate, step and clip.
std::vector<ValueId> update_scalars(CaseBuilder& b, const Update& update) {
  return {b.values("learning_rate", {DType::kF32, {1}}, {update.learning_rate}), b.integers("step", {1}, {update.step}),
          b.values("clip", {DType::kF32, {1}}, {update.clip})};
}

// The storage of an update's parts. Split parameters are F32 in graphs of F64, too.
enum class Weights { kWhole, kSplit };
enum class States { kMoments, kCodes, kMeans };

struct UpdateCase {
  Op op;
  Shape shape;
  Update update;
  Weights weights = Weights::kWhole;
  States states = States::kMoments;
  Ids ids{};  // for updates by rows
  std::int64_t capacity = 0;
  std::int64_t first = 0, count = 0;  // for updates of a part
  std::optional<Shape> factored{};    // for adafactor: the stack of matrices as which the parameter is read
  bool own_gradient = false;          // of a part: its gradient alone, flat
  bool whole_moments = false;         // of a part
};

class UpdateBuilder {
 public:
  UpdateBuilder(CaseBuilder& b, const UpdateCase& c)
      : b_(b), c_(c), f_(c.weights == Weights::kSplit ? DType::kF32 : b.dtype()) {}

  void build() {
    add_parameter();
    if (c_.states == States::kMeans) {
      add_means();
    } else {
      add_moment("m", {-1, 1});
      add_moment("v", {0, 1});
    }
    if (c_.op == Op::kAdamW || c_.op == Op::kAdafactor) {
      const Shape shape = c_.own_gradient ? Shape{c_.count} : c_.shape;
      inputs_.push_back(b_.values("gradient", {f_, shape}, numbers(shape.elements(), {-1, 1})));
    } else {
      add_rows();
    }
    for (const ValueId scalar : update_scalars(b_, c_.update)) inputs_.push_back(scalar);
    AdamWAttributes adamw = c_.update.attributes;
    adamw.first = c_.first;
    adamw.count = c_.count;
    if (c_.own_gradient) adamw.gradient_first = c_.first;
    adamw.whole_moments = c_.whole_moments;
    Attributes attributes = adamw;
    if (c_.states == States::kMeans) {
      attributes = AdafactorAttributes{.weight_decay = c_.update.attributes.weight_decay,
                                       .rate_factor = c_.update.attributes.rate_factor};
    }
    b_.graph.add_node(
        {.op = c_.op, .name = "update", .attributes = attributes, .inputs = inputs_, .phase = Phase::kUpdate});
  }

 private:
  std::vector<double> numbers(std::int64_t count, Range range) {
    std::vector<double> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(b_.random_number(range));
    return list;
  }
  void add_state(std::string name, TensorType type, std::vector<double> list) {
    inputs_.push_back(b_.state_values(std::move(name), type, std::move(list)));
  }

  void add_parameter() {
    const std::vector<double> whole = numbers(c_.shape.elements(), {-1, 1});
    if (c_.weights == Weights::kWhole) return add_state("parameter", {f_, c_.shape}, whole);
    std::vector<double> high, low;
    for (const double value : whole) {
      const SplitFloat halves = split_float(static_cast<float>(value));
      high.push_back(double{bfloat16_to_float(halves.high)});
      low.push_back(halves.low);
    }
    add_state("parameter", {DType::kBF16, c_.shape}, high);
    add_state("parameter.low", {DType::kI16, c_.shape}, low);
  }

  void add_moment(const std::string& name, Range range) {
    const Shape shape = c_.count > 0 && !c_.whole_moments ? Shape{c_.count} : c_.shape;
    const std::int64_t elements = shape.elements();
    if (c_.states == States::kMoments) return add_state(name, {f_, shape}, numbers(elements, range));
    std::vector<double> codes;
    for (std::int64_t i = 0; i < elements; ++i) codes.push_back(b_.random_integer(0, 255));
    add_state(name, {DType::kU8, shape}, codes);
    std::vector<double> absmax = numbers(code_blocks(elements), {0, 1});
    absmax.back() = 0;  // as before the first update
    add_state(name + ".absmax", {f_, {code_blocks(elements)}}, absmax);
  }

  void add_means() {
    if (c_.shape.rank() == 1) return add_state("mean", {f_, c_.shape}, numbers(c_.shape.elements(), {0, 1}));
    const Shape& factored = c_.factored.value_or(c_.shape);
    for (const auto& [name, shape] :
         {std::pair{"row_mean", row_mean_shape(factored)}, std::pair{"column_mean", column_mean_shape(factored)}}) {
      add_state(name, {f_, shape}, numbers(shape.elements(), {0, 1}));
    }
  }

  void add_rows() {
    const auto count = static_cast<std::int32_t>(c_.ids.size());
    inputs_.push_back(b_.integers("ids", {c_.capacity}, c_.ids));
    inputs_.push_back(b_.integers("count", {1}, {count}));
    inputs_.push_back(b_.values("rows", {f_, {c_.capacity, c_.shape[1]}}, numbers(count * c_.shape[1], {-1, 1})));
  }

  CaseBuilder& b_;
  const UpdateCase& c_;
  DType f_;
  std::vector<ValueId> inputs_;
};

OpCase update_case(UpdateCase c) {
  const char* states = c.states == States::kCodes ? "codes_" : "";
  const char* weights = c.weights == Weights::kSplit ? "split_" : "";
  return {fmt::format("{}/{}{}{}", op_name(c.op), states, weights, c.update.name),
          [=](CaseBuilder& b) { UpdateBuilder(b, c).build(); }};
}

// Each case runs on whole and on split weights.
std::vector<OpCase> parameter_update_cases() {
  const AdamWAttributes no_decay{.weight_decay = 0};
  const AdamWAttributes other{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1, .rate_factor = 0.375};
  Ids every_third;
  for (std::int32_t id = 1; id < 300; id += 3) every_third.push_back(id);
  std::vector<UpdateCase> list;
  for (const States states : {States::kMoments, States::kCodes, States::kMeans}) {
    const bool means = states == States::kMeans;
    const auto dense = [&](Shape shape, Update update) {
      list.push_back({means ? Op::kAdafactor : Op::kAdamW, shape, update, Weights::kWhole, states});
    };
    const auto rows = [&](Shape shape, Ids ids, std::int64_t capacity, Update update) {
      list.push_back(
          {means ? Op::kAdafactorRows : Op::kAdamWRows, shape, update, Weights::kWhole, states, ids, capacity});
    };
    dense({5, 7}, {"first_step", 1, 1e-3, 1.0});
    dense({13}, {"later_clipped", 57, 5e-5, 0.125});
    dense({3, 4, 5}, {"no_decay", 3, 1e-2, 1.0, no_decay});
    dense({33, 65}, {"other_betas", 10000, 1e-3, 0.5, other});
    dense({1}, {"one_element", 4, 1e-2, 1.0});
    dense({9, 67}, {"skipped", 4, 1e-2, std::numeric_limits<double>::quiet_NaN()});
    dense({139, 127}, {"shared_by_threads", 20, 1e-3, 1.0});
    dense({2, 3, 70, 3}, {"stacked", 6, 1e-3, 2.0});
    rows({11, 12}, {0, 3, 10}, 6, {"some_rows", 4, 1e-3, 0.5});
    rows({7, 5}, {}, 3, {"no_rows", 2, 1e-3, 1.0});
    rows({7, 5}, {1, 2}, 3, {"skipped", 2, 1e-3, std::numeric_limits<double>::quiet_NaN()});
    rows({5, 33}, {0, 1, 2, 3, 4}, 5, {"all_rows", 1, 1e-2, 1.0, no_decay});
    rows({9, 768}, {2, 3, 7}, 3, {"rows_of_whole_blocks", 9, 1e-3, 1.0});
    rows({5, 300}, {1, 4}, 3, {"rows_across_blocks", 9, 1e-3, 1.0, no_decay});
    rows({300, 67}, every_third, 120, {"many_rows", 30, 1e-3, 1.0});
    if (means) {
      const auto read_as = [&](Shape factored) { list.back().factored = factored; };
      dense({6, 12}, {"as_a_stack", 5, 1e-3, 1.0});
      read_as({6, 3, 2, 2});
      dense({23, 192}, {"as_many_matrices", 2, 1e-3, 0.5});
      read_as({23, 3, 8, 8});
      dense({3, 4, 150}, {"as_one_matrix", 9, 1e-2, 1.0});
      read_as({100, 18});
      continue;
    }
    const auto part = [&](std::int64_t first, std::int64_t count) {
      list.back().first = first;
      list.back().count = count;
    };
    dense({33, 65}, {"first_part", 4, 1e-3, 0.5, other});
    part(0, 512);
    dense({33, 65}, {"last_part", 4, 1e-3, 0.5, other});
    part(1792, 353);
    dense({33, 65}, {"part_of_its_own_gradient", 4, 1e-3, 0.5, other});
    part(768, 777);
    list.back().own_gradient = true;
    dense({7, 600}, {"first_part_of_its_own_gradient", 9, 1e-3, 1.0});
    part(0, 1024);
    list.back().own_gradient = true;
    dense({7, 600}, {"part_of_whole_moments", 9, 1e-3, 1.0});
    part(1024, 1280);
    list.back().own_gradient = list.back().whole_moments = true;
    dense({33, 65}, {"last_part_of_whole_moments", 4, 1e-3, 0.5, other});
    part(1792, 353);
    list.back().whole_moments = true;
    rows({300, 67}, every_third, 120, {"part_of_many_rows", 30, 1e-3, 1.0});
    part(256 * 13, 256 * 21);
    rows({9, 768}, {2, 7}, 3, {"part_without_rows", 9, 1e-3, 1.0});
    part(3 * 768, 768);
  }
  std::vector<OpCase> cases;
  for (UpdateCase& c : list) {
    cases.push_back(update_case(c));
    c.weights = Weights::kSplit;
    cases.push_back(update_case(c));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> update_cases() {
  std::vector<OpCase> cases = {
      slice_case("middle", {7, 9}, 5, 40),
      slice_case("all", {4, 33}, 0, 132),
      slice_case("nothing", {3, 5}, 15, 0),
      slice_case("last_of_many", {33, 1025}, 32 * 1025 + 7, 1001),
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
      merge_case("many", 900, ids_of(300, 7), 700, ids_of(650, 3), true, 5),
      merge_case("many_onto_few", 700, ids_of(3, 500), 700, ids_of(650, 3), true, 4),
      merge_case("few_onto_many", 700, ids_of(650, 3), 4, {0, 1, 2, 1948}, true, 4),
      sum_squares_case(7, 3, 12),
      sum_squares_case(7, 0, 5),
      sum_squares_case(33, 33, 24),
      sum_squares_case(1, 1, 1),
      sum_squares_case(261, 259, 97),
      joined_sums_case(2),
      joined_sums_case(9),
      joined_sums_case(100),
      gradient_norm_case("clips", 1.0, {0.5, 2.25, 17.0}),
      gradient_norm_case("leaves", 10.0, {0.5, 2.25}),
      gradient_norm_case("of_nothing", 1.0, {0.0}),
      gradient_norm_case("off", 0.0, {1e6}),
      gradient_norm_case("unscales_and_clips", 1.0, {0.5 * 1024, 2.25 * 1024}, 1.0 / 16),
      gradient_norm_case("unscales", 0.0, {7.5}, 1.0 / 65536),
      gradient_norm_case("many", 2.5, std::vector<double>(41, 0.75)),
      gradient_norm_case("hundreds", 2.5, std::vector<double>(300, 0.7)),
  };
  const std::vector<OpCase> updates = parameter_update_cases();
  cases.insert(cases.end(), updates.begin(), updates.end());
  return cases;
}

}  // namespace plimsoll::test
