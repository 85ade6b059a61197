// The shape rules and the facts of the ops that accumulate gradients, update parameters, and offload tensors.
#include "graph/op_facts.h"
#include "graph/op_work.h"
#include "graph/shape_rule.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"

namespace plimsoll {
namespace {

Types accumulate_types(const ShapeRule& rule) {
  rule.inputs(3);
  rule.expect(1, rule.in(0));
  rule.expect(2, i32({1}));
  return {rule.in(0)};
}

Types merge_row_grads_types(const ShapeRule& rule) {
  rule.inputs(7);
  rule.expect(6, i32({1}));
  const TensorType& rows = rule.floating(2, 2);
  rule.expect(0, i32({rows.shape[0]}));
  rule.expect(1, i32({1}));
  const TensorType& added = rule.floating(5, 2);
  rule.require(added.dtype == rows.dtype && added.shape[1] == rows.shape[1], "both row sets share dtype and D");
  rule.expect(3, i32({added.shape[0]}));
  rule.expect(4, i32({1}));
  return {rule.in(0), rule.in(1), rule.in(2)};
}

Types put_rows_types(const ShapeRule& rule) {
  rule.inputs(3);
  const TensorType& table = rule.floating(0, 2);
  const std::int64_t rows = rule.dim(1, 0);
  rule.expect(1, {table.dtype, {rows, table.shape[1]}});
  rule.expect(2, i32({rule.dim(2, 0) == 1 ? 1 : rows}));
  return {table};
}

Types sum_squares_types(const ShapeRule& rule) {
  rule.require(rule.count() > 0, "sums at least one tensor");
  rule.require(rule.count() == 1 || rule.node().row_count == kNoValue, "counts rows of a single tensor");
  for (std::size_t i = 0; i < rule.count(); ++i) {
    rule.require(is_floating(rule.in(i).dtype) && rule.in(i).dtype == rule.in(0).dtype,
                 "sums floating tensors of one type");
  }
  return Types(rule.count(), {DType::kF64, {1}});
}

Types gradient_norm_types(const ShapeRule& rule) {
  const std::size_t scalars = rule.attributes<GradientNormAttributes>().unscales ? 2 : 1;
  rule.require(rule.count() > scalars, "takes max_grad_norm, unscale if it unscales, and sums of squares");
  for (std::size_t i = 0; i < rule.count(); ++i) rule.expect(i, {i < scalars ? DType::kF32 : DType::kF64, {1}});
  return {rule.in(0), rule.in(0)};
}

// Checks AdamW's moments for a parameter of that shape; f is the node's floating type.
void require_moments(const ShapeRule& rule, const UpdateForm& form, const Shape& parameter, DType f) {
  const std::size_t first = form.states();
  const auto& attributes = rule.attributes<AdamWAttributes>();
  const bool part = attributes.count > 0;
  rule.require(!part || (attributes.first >= 0 && attributes.first % kStateBlock == 0 &&
                         attributes.first >= attributes.parameter_first &&
                         attributes.first + attributes.count <= attributes.parameter_first + parameter.elements()),
               "updates whole blocks of its parameter");
  rule.require(part || (attributes.parameter_first == 0 && attributes.gradient_first == 0),
               "begins with the first element if it updates all of them");
  rule.require(!attributes.whole_moments || (part && attributes.parameter_first == 0),
               "updates part of a whole parameter if its moments are whole");
  const Shape shape = part && !attributes.whole_moments ? Shape{attributes.count} : parameter;
  rule.require(form.state_parts == (form.coded ? 4U : 2U), "takes two moments, of one part each or of two");
  for (std::size_t moment = 0; moment < 2; ++moment) {
    if (form.coded) {
      rule.expect(first + 2 * moment, {DType::kU8, shape});
      rule.expect(first + 2 * moment + 1, {f, {code_blocks(shape.elements())}});
    } else {
      rule.expect(first + moment, {f, shape});
    }
  }
}

// Checks Adafactor's means in the same way. Row and column means may factor the parameter in another shape than its own
// (graph/update_form.h), unless its gradient comes by rows.
void require_means(const ShapeRule& rule, const UpdateForm& form, const Shape& shape, DType f) {
  const bool factored = shape.rank() >= 2;
  rule.require(shape.rank() >= 1 && form.state_parts == (factored ? 2U : 1U),
               "takes means of rows and columns, or one mean for a vector");
  if (!factored || form.by_rows) {
    rule.expect(form.states(), {f, factored ? row_mean_shape(shape) : shape});
    if (factored) rule.expect(form.states() + 1, {f, column_mean_shape(shape)});
    return;
  }
  const TensorType &rows = rule.in(form.states()), &columns = rule.in(form.states() + 1);
  rule.require(rows.dtype == f && columns.dtype == f, "has means of the gradient's type");
  const std::size_t rank = rows.shape.rank();
  bool alike = rank >= 1 && columns.shape.rank() == rank;
  for (std::size_t i = 0; alike && i + 1 < rank; ++i) alike = rows.shape[i] == columns.shape[i];
  rule.require(alike && rows.shape.elements() * columns.shape[rank - 1] == shape.elements(),
               "has means of the rows and columns of a stack of matrices of as many elements as the parameter");
}

Types parameter_update_types(const ShapeRule& rule) {
  const UpdateForm form = update_form(rule.graph(), rule.node());
  const TensorType& parameter = rule.in(0);
  const Shape& shape = parameter.shape;
  const DType f = rule.in(form.gradient_values()).dtype;
  rule.require(f == DType::kF32 || f == DType::kF64, "takes a gradient of F32 or F64");
  if (form.split()) {
    rule.expect(1, {DType::kI16, shape});
    rule.require(f == DType::kF32, "joins a split parameter to F32");
  } else {
    rule.require(parameter.dtype == f,
                 "takes a parameter of the gradient's type, or one that is split in BF16 and I16");
  }
  if (form.by_rows) {
    const TensorType& rows = rule.floating(form.gradient_values(), 2);
    rule.expect(form.gradient(), i32({rows.shape[0]}));
    rule.expect(form.gradient() + 1, i32({1}));
    rule.require(shape.rank() == 2 && rows.shape[1] == shape[1], "rows and table share D");
  } else if (const auto* part = std::get_if<AdamWAttributes>(&rule.node().attributes);
             part != nullptr && part->count > 0) {
    const TensorType& gradient = rule.in(form.gradient());
    rule.require(gradient.dtype == f && part->first >= part->gradient_first &&
                     part->first + part->count <= part->gradient_first + gradient.shape.elements(),
                 "has the gradient of what it updates");
  } else {
    rule.expect(form.gradient(), {f, shape});
  }
  if (rule.node().op == Op::kAdamW || rule.node().op == Op::kAdamWRows) {
    require_moments(rule, form, shape, f);
  } else {
    rule.attributes<AdafactorAttributes>();
    require_means(rule, form, shape, f);
  }
  rule.expect(form.scalars(), {DType::kF32, {1}});
  rule.expect(form.scalars() + 1, i32({1}));
  rule.expect(form.scalars() + 2, {DType::kF32, {1}});
  Types types;
  for (std::size_t i = 0; i < form.gradient(); ++i) types.push_back(rule.in(i));
  return types;
}

Types transfer_types(const ShapeRule& rule) {
  const auto& parts = rule.attributes<TransferAttributes>().parts;
  rule.inputs(rule.node().op == Op::kFetchBegin ? 0 : parts.size());
  Types types;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (rule.node().op != Op::kFetchBegin) rule.expect(i, parts[i].type);
    if (rule.node().op != Op::kStoreEnd) types.push_back(parts[i].type);
  }
  return types;
}

// The number of inputs after those that an update changes (graph/update_form.h): the gradient, as one tensor or as ids,
// count and rows, and three scalars.
constexpr std::size_t kBehindStates = 4, kBehindStatesByRows = 6;

constexpr OpFacts kUpdateRows[] = {
    {.op = Op::kAccumulate,
     .name = "accumulate",
     .types = accumulate_types,
     .work = element_work,
     .aliases = in_place_but(2)},
    {.op = Op::kMergeRowGrads,
     .name = "merge_row_grads",
     .types = merge_row_grads_types,
     .work = element_work,
     .aliases = in_place_but(4),
     .rows = {.counted = OutputRows::Counted::kBySecondOutput}},
    {.op = Op::kPutRows,
     .name = "put_rows",
     .types = put_rows_types,
     .work = element_work,
     .aliases = in_place_but(2),
     .takes_halves = true,
     .rows = {.count = 0}},
    {.op = Op::kSumSquares,
     .name = "sum_squares",
     .types = sum_squares_types,
     .work = element_work,
     .rows = {.count = 0}},
    {.op = Op::kGradientNorm, .name = "gradient_norm", .types = gradient_norm_types, .work = element_work},
    {.op = Op::kAdamW,
     .name = "adamw",
     .types = parameter_update_types,
     .work = adamw_work,
     .aliases = in_place_but(kBehindStates)},
    {.op = Op::kAdamWRows,
     .name = "adamw_rows",
     .types = parameter_update_types,
     .work = adamw_work,
     .aliases = in_place_but(kBehindStatesByRows)},
    {.op = Op::kAdafactor,
     .name = "adafactor",
     .types = parameter_update_types,
     .work = element_work,
     .aliases = in_place_but(kBehindStates)},
    {.op = Op::kAdafactorRows,
     .name = "adafactor_rows",
     .types = parameter_update_types,
     .work = element_work,
     .aliases = in_place_but(kBehindStatesByRows)},
    {.op = Op::kFetchBegin, .name = "fetch_begin", .types = transfer_types, .work = no_work},
    {.op = Op::kFetchEnd, .name = "fetch_end", .types = transfer_types, .work = no_work, .aliases = in_place_but(0)},
    {.op = Op::kStoreBegin,
     .name = "store_begin",
     .types = transfer_types,
     .work = no_work,
     .aliases = in_place_but(0)},
    {.op = Op::kStoreEnd, .name = "store_end", .types = transfer_types, .work = no_work},
};

}  // namespace

std::span<const OpFacts> update_ops() { return kUpdateRows; }

}  // namespace plimsoll
