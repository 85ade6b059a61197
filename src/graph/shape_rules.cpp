// One shape rule per op: the requirements on the inputs, and the types of the outputs. The catalogue in op.h is the
// specification.
#include <fmt/format.h>

#include "graph/attention_form.h"
#include "graph/graph.h"
#include "graph/update_form.h"
#include "tensor/dynamic_code.h"

namespace plimsoll {
namespace {

using Types = std::vector<TensorType>;

// Reads a node's input types with checks that name the node.
class Rule {
 public:
  Rule(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::size_t count() const { return node_.inputs.size(); }
  UpdateForm form() const { return update_form(graph_, node_); }
  const TensorType& in(std::size_t i) const {
    require(i < count(), [&] { return fmt::format("has too few inputs ({})", count()); });
    return graph_.type(node_.inputs[i]);
  }
  std::int64_t dim(std::size_t i, std::size_t axis) const {
    require(axis < in(i).shape.rank(), [&] { return fmt::format("input {} has too few dimensions", i); });
    return in(i).shape[axis];
  }
  void require(bool condition, std::string_view what) const {
    if (!condition) fail(what);
  }
  // Takes a message that is only built when it is needed.
  template <std::invocable What>
  void require(bool condition, const What& what) const {
    if (!condition) fail(what());
  }
  void fail(std::string_view what) const {
    std::string types;
    for (const ValueId input : node_.inputs) types += fmt::format(" {}", to_string(graph_.type(input)));
    check(false, fmt::format("node '{}' ({}) {}; inputs:{}", node_.name, op_name(node_.op), what, types));
  }
  void inputs(std::size_t low, std::size_t high) const {
    require(count() >= low && count() <= high, [&] { return fmt::format("takes {} to {} inputs", low, high); });
  }
  void inputs(std::size_t exactly) const { inputs(exactly, exactly); }
  // Returns a tensor of this rank that has the node's floating type (that of the first floating input asked for).
  const TensorType& floating(std::size_t i, std::size_t rank) const {
    const TensorType& type = in(i);
    require(is_floating(type.dtype) && type.shape.rank() == rank,
            [&] { return fmt::format("input {} is a floating tensor of rank {}", i, rank); });
    return type;
  }
  // Does the same, but also allows a tensor coded in blocks.
  const TensorType& matrix(std::size_t i) const {
    return is_coded(in(i).dtype) && in(i).shape.rank() == 2 ? in(i) : floating(i, 2);
  }
  void expect(std::size_t i, const TensorType& type) const {
    require(in(i) == type, [&] { return fmt::format("input {} must be {}", i, to_string(type)); });
  }
  // Checks a linear map's weight for rows of type f.
  void require_weight(const TensorType& weight, DType f) const {
    require(weight.dtype == f || weight.dtype == wide(f) || is_coded(weight.dtype),
            "has a weight of its rows' type, wider, or coded");
  }
  template <typename T>
  const T& attributes() const {
    require(std::holds_alternative<T>(node_.attributes), "carries the wrong kind of attributes");
    return std::get<T>(node_.attributes);
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

TensorType i32(Shape shape) { return {DType::kI32, shape}; }

// Checks kAttention's inputs from sample_offsets on; n rows, bias tables of dtype f.
void require_attention_context(const Rule& rule, const AttentionForm& form, std::int64_t n, DType f) {
  rule.inputs(form.inputs());
  const TensorType& offsets = rule.in(form.sample_offsets());
  rule.require(offsets.dtype == DType::kI32 && offsets.shape.rank() == 1, "sample_offsets is i32[B+1]");
  rule.expect(form.key_mask(), i32({n}));
  rule.expect(form.row_keys(), i32({n, 2}));
  rule.expect(form.dropout_key(), i32({2}));
  if (form.tables() > 0) rule.expect(form.coordinates(), i32({n, 3}));
  for (std::size_t bias = 0; bias < AttentionForm::kBiases; ++bias) {
    if (!form.has_bias[bias]) continue;
    const TensorType& type = rule.floating(form.table(bias), 2);
    rule.require(type.dtype == f && type.shape[0] == rule.attributes<AttentionAttributes>().heads,
                 "bias tables are w[H, bins]");
  }
}

// Checks AdamW's moments for a parameter of that shape; f is the node's floating type.
void require_moments(const Rule& rule, const UpdateForm& form, const Shape& parameter, DType f) {
  const std::size_t first = form.states();
  const auto& attributes = rule.attributes<AdamWAttributes>();
  const bool part = attributes.count > 0;
  rule.require(!part || (attributes.first >= 0 && attributes.first % kStateBlock == 0 &&
                         attributes.first + attributes.count <= parameter.elements()),
               "updates whole blocks of its parameter");
  const Shape shape = part ? Shape{attributes.count} : parameter;
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
void require_means(const Rule& rule, const UpdateForm& form, const Shape& shape, DType f) {
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

Types infer_parameter_update(const Rule& rule, const Node& node) {
  const UpdateForm form = rule.form();
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
  } else {
    rule.expect(form.gradient(), {f, shape});
  }
  if (node.op == Op::kAdamW || node.op == Op::kAdamWRows) {
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

Types infer_heads(const Rule& rule, Op op) {
  const auto& attributes = rule.attributes<HeadsAttributes>();
  rule.require(attributes.heads > 0 && attributes.first_size > 0 && attributes.second_size > 0,
               "has heads of two parts");
  const TensorType& x = rule.floating(0, 2);
  const std::int64_t first = attributes.heads * attributes.first_size;
  const std::int64_t second = attributes.heads * attributes.second_size;
  const auto of = [&](std::int64_t columns) { return TensorType{x.dtype, {x.shape[0], columns}}; };
  if (op == Op::kConcatHeads) {
    rule.inputs(attributes.second ? 2 : 1);
    rule.expect(0, of(first));
    if (attributes.second) rule.expect(1, of(second));
    return {of(first + second)};
  }
  rule.inputs(1);
  rule.expect(0, of(first + second));
  if (attributes.second) return {of(first), of(second)};
  return {of(first)};
}

Types infer_pair_scores(const Rule& rule) {
  rule.inputs(4);
  const TensorType& heads = rule.floating(0, 2);
  const TensorType& terms = rule.floating(2, 2);
  const std::int64_t rows = heads.shape[0], group = rule.attributes<PairAttributes>().group;
  rule.require(group > 0 && rows % group == 0, "pairs whole groups of rows");
  rule.expect(1, {heads.dtype, {rows, heads.shape[1] * terms.shape[1]}});
  rule.expect(2, {heads.dtype, {rows, terms.shape[1]}});
  rule.expect(3, rule.in(2));
  return {{heads.dtype, {rows * group, terms.shape[1]}}};
}

Types infer_pair_scores_grad(const Rule& rule) {
  rule.inputs(3);
  const TensorType& dy = rule.floating(0, 2);
  const TensorType& heads = rule.floating(1, 2);
  const std::int64_t rows = heads.shape[0], group = rule.attributes<PairAttributes>().group;
  rule.require(group > 0 && rows % group == 0, "pairs whole groups of rows");
  rule.expect(0, {heads.dtype, {rows * group, dy.shape[1]}});
  rule.expect(2, {heads.dtype, {rows, heads.shape[1] * dy.shape[1]}});
  const TensorType terms{dy.dtype, {rows, dy.shape[1]}};
  return {heads, rule.in(2), terms, terms};
}

Types infer_forward(const Rule& rule, const Node& node) {
  switch (node.op) {
    case Op::kEmbedding: {
      rule.inputs(2);
      const TensorType& table = rule.matrix(0);
      rule.expect(1, i32({rule.dim(1, 0)}));
      rule.attributes<EmbeddingAttributes>();
      return {{is_coded(table.dtype) ? DType::kF32 : table.dtype, {rule.dim(1, 0), table.shape[1]}}};
    }
    case Op::kSpatialEmbedding: {
      rule.inputs(5);
      const auto& attributes = rule.attributes<SpatialAttributes>();
      for (std::size_t i = 0; i < 4; ++i) {
        rule.require(rule.floating(i, 2).dtype == rule.in(0).dtype && rule.dim(i, 0) == rule.dim(0, 0),
                     "tables share dtype and rows");
      }
      rule.expect(1, rule.in(0));
      rule.expect(3, rule.in(2));
      rule.require(attributes.table_rows == rule.dim(0, 0) && attributes.coordinate_size == rule.dim(0, 1) &&
                       attributes.shape_size == rule.dim(2, 1),
                   "says what its tables are");
      rule.require(!attributes.sums || attributes.coordinate_size == attributes.shape_size, "sums rows of one width");
      rule.expect(4, i32({rule.dim(4, 0), 4}));
      return {{rule.in(0).dtype, {rule.dim(4, 0), attributes.columns()}}};
    }
    case Op::kPatchify: {
      rule.inputs(1);
      const TensorType& pixels = rule.floating(0, 4);
      const std::int64_t size = rule.attributes<PatchAttributes>().patch_size;
      rule.require(size > 0 && pixels.shape[2] % size == 0 && pixels.shape[3] % size == 0,
                   "needs an image that patches tile");
      const std::int64_t patches = (pixels.shape[2] / size) * (pixels.shape[3] / size);
      return {{pixels.dtype, {pixels.shape[0] * patches, pixels.shape[1] * size * size}}};
    }
    case Op::kVisualEmbedding: {
      rule.inputs(3);
      const TensorType& patches = rule.floating(0, 2);
      const std::int64_t width = patches.shape[1];
      const std::int64_t visual = rule.dim(2, 1);
      rule.expect(1, {patches.dtype, {1, 1, width}});
      rule.expect(2, {patches.dtype, {1, visual, width}});
      rule.require(visual > 1 && patches.shape[0] % (visual - 1) == 0, "patches come in whole samples");
      return {{patches.dtype, {patches.shape[0] / (visual - 1) * visual, width}}};
    }
    case Op::kAdd:
      rule.inputs(2);
      rule.expect(1, rule.in(0));
      return {rule.in(0)};
    case Op::kLinear: {
      rule.inputs(2, 3);
      const TensorType& x = rule.floating(0, 2);
      const TensorType& weight = rule.matrix(1);
      rule.require(x.shape[1] == weight.shape[1], "x and weight share K");
      rule.require_weight(weight, x.dtype);
      if (rule.count() == 3) rule.expect(2, {wide(x.dtype), {weight.shape[0]}});
      return {{x.dtype, {x.shape[0], weight.shape[0]}}};
    }
    case Op::kLinearAdd: {
      rule.inputs(3);
      const TensorType& x = rule.floating(0, 2);
      const TensorType& weight = rule.floating(1, 2);
      rule.require(x.shape[1] == weight.shape[1], "x and weight share K");
      rule.require_weight(weight, x.dtype);
      rule.expect(2, {x.dtype, {x.shape[0], weight.shape[0]}});
      return {rule.in(2)};
    }
    case Op::kScale:
      rule.inputs(1);
      rule.attributes<ScaleAttributes>();
      return {rule.floating(0, 2)};
    case Op::kLayerNorm: {
      rule.inputs(3);
      const TensorType& x = rule.floating(0, 2);
      rule.expect(1, {wide(x.dtype), {x.shape[1]}});
      rule.expect(2, rule.in(1));
      rule.attributes<LayerNormAttributes>();
      return {x, x, {wide(x.dtype), {x.shape[0]}}};
    }
    case Op::kLayerNormAffine: {
      rule.inputs(3);
      const TensorType& x = rule.floating(0, 2);
      rule.expect(1, {wide(x.dtype), {x.shape[1]}});
      rule.expect(2, rule.in(1));
      return {x};
    }
    case Op::kDropout: {
      rule.inputs(3);
      const TensorType& x = rule.floating(0, 2);
      rule.expect(1, i32({x.shape[0], 2}));
      rule.expect(2, i32({2}));
      rule.require(rule.attributes<DropoutAttributes>().p >= 0 && rule.attributes<DropoutAttributes>().p < 1,
                   "has p in [0, 1)");
      return {x};
    }
    case Op::kPackRows: {
      rule.inputs(5);
      const TensorType& text = rule.floating(0, 2);
      const TensorType& visual = rule.floating(1, 2);
      rule.require(text.dtype == visual.dtype && text.shape[1] == visual.shape[1], "text and visual share dtype and D");
      rule.expect(2, i32({rule.dim(2, 0)}));
      rule.expect(3, i32({text.shape[0]}));
      rule.expect(4, i32({visual.shape[0]}));
      return {{text.dtype, {rule.dim(2, 0), text.shape[1]}}};
    }
    case Op::kGatherRows: {
      rule.inputs(3);
      const TensorType& x = rule.floating(0, 2);
      rule.expect(1, i32({rule.dim(1, 0)}));
      rule.expect(2, i32({x.shape[0]}));
      return {{x.dtype, {rule.dim(1, 0), x.shape[1]}}};
    }
    case Op::kConcatHeads:
    case Op::kSplitHeads:
      return infer_heads(rule, node.op);
    case Op::kPairScores:
      rule.require(node.row_count == kNoValue, "has no row count");
      return infer_pair_scores(rule);
    case Op::kAttention: {
      rule.require(node.inputs.size() >= 3, "has q, k and v");
      const TensorType& q = rule.floating(0, 2);
      rule.expect(1, q);
      rule.expect(2, q);
      const std::int64_t heads = rule.attributes<AttentionAttributes>().heads;
      rule.require(heads > 0 && q.shape[1] % heads == 0, "splits D into whole heads");
      require_attention_context(rule, attention_form(node), q.shape[0], wide(q.dtype));
      return {q, {wide(q.dtype), {q.shape[0], 2 * heads}}};
    }
    case Op::kGelu:
    case Op::kTanh:
    case Op::kRelu:
      rule.inputs(1);
      return {rule.floating(0, 2)};
    case Op::kCast:
      rule.inputs(1);
      rule.require(is_floating(rule.attributes<CastAttributes>().to), "casts to a floating type");
      return {{rule.attributes<CastAttributes>().to, rule.floating(0, 2).shape}};
    case Op::kCrossEntropy: {
      rule.inputs(3);
      const TensorType& logits = rule.floating(0, 2);
      rule.expect(1, i32({logits.shape[0]}));
      rule.floating(2, 1);
      rule.require(rule.dim(2, 0) == 1, "loss_scale is f[1]");
      return {rule.in(2), logits};
    }
    case Op::kElementLoss: {
      rule.inputs(3);
      rule.attributes<ElementLossAttributes>();
      const TensorType& logits = rule.floating(0, 2);
      rule.expect(1, logits);
      rule.floating(2, 1);
      rule.require(rule.dim(2, 0) == 1, "loss_scale is f[1]");
      return {rule.in(2), logits};
    }
    case Op::kSpanCrossEntropy: {
      rule.inputs(4);
      const TensorType& logits = rule.floating(0, 2);
      const std::int64_t samples = rule.dim(1, 0);
      rule.expect(1, i32({samples, logits.shape[1]}));
      rule.expect(2, i32({samples + 1}));
      rule.floating(3, 1);
      rule.require(rule.dim(3, 0) == 1, "loss_scale is f[1]");
      return {rule.in(3), logits};
    }
    default:
      rule.require(false, "has no shape rule");
      return {};
  }
}

Types infer_backward(const Rule& rule, const Node& node) {
  switch (node.op) {
    case Op::kEmbeddingGrad: {
      rule.inputs(2);
      const TensorType& dy = rule.floating(0, 2);
      rule.expect(1, i32({dy.shape[0]}));
      return {{dy.dtype, {rule.attributes<EmbeddingAttributes>().table_rows, dy.shape[1]}}};
    }
    case Op::kEmbeddingRowGrad: {
      rule.inputs(2);
      const TensorType& dy = rule.floating(0, 2);
      rule.expect(1, i32({dy.shape[0]}));
      rule.attributes<EmbeddingAttributes>();
      return {i32({dy.shape[0]}), i32({1}), dy};
    }
    case Op::kSpatialEmbeddingGrad: {
      rule.inputs(2);
      const TensorType& dy = rule.floating(0, 2);
      rule.expect(1, i32({dy.shape[0], 4}));
      const auto& attributes = rule.attributes<SpatialAttributes>();
      rule.require(attributes.columns() == dy.shape[1], "splits D as the tables do");
      const TensorType coordinate{dy.dtype, {attributes.table_rows, attributes.coordinate_size}};
      const TensorType size{dy.dtype, {attributes.table_rows, attributes.shape_size}};
      return {coordinate, coordinate, size, size};
    }
    case Op::kVisualEmbeddingGrad: {
      rule.inputs(1);
      const TensorType& dy = rule.floating(0, 2);
      const std::int64_t visual = rule.attributes<VisualAttributes>().patches + 1;
      const std::int64_t width = dy.shape[1];
      rule.require(visual > 1 && dy.shape[0] % visual == 0, "rows come in whole samples");
      return {{dy.dtype, {dy.shape[0] / visual * (visual - 1), width}},
              {dy.dtype, {1, 1, width}},
              {dy.dtype, {1, visual, width}}};
    }
    case Op::kLinearInputGrad: {
      rule.inputs(2);
      const TensorType& dy = rule.floating(0, 2);
      const TensorType& weight = rule.matrix(1);
      rule.require(dy.shape[1] == weight.shape[0], "dy and weight share M");
      rule.require_weight(weight, dy.dtype);
      return {{dy.dtype, {dy.shape[0], weight.shape[1]}}};
    }
    case Op::kLinearWeightGrad: {
      rule.require(rule.count() == 2 || rule.count() == 4, "takes dy and x, or dy, x, sum and keep");
      const TensorType& dy = rule.floating(0, 2);
      const TensorType& x = rule.floating(1, 2);
      rule.require(dy.shape[0] == x.shape[0] && dy.dtype == x.dtype, "dy and x share rows and dtype");
      const TensorType type{wide(dy.dtype), {dy.shape[1], x.shape[1]}};
      if (rule.count() == 2) return {type};
      rule.expect(2, type);
      rule.expect(3, i32({1}));
      return {rule.in(2)};
    }
    case Op::kBiasGrad: {
      rule.inputs(1);
      const TensorType& dy = rule.floating(0, 2);
      return {{wide(dy.dtype), {dy.shape[1]}}};
    }
    case Op::kLayerNormGrad: {
      rule.inputs(4);
      const TensorType& dy = rule.floating(0, 2);
      rule.expect(1, dy);
      rule.expect(2, {wide(dy.dtype), {dy.shape[0]}});
      rule.expect(3, {wide(dy.dtype), {dy.shape[1]}});
      return {dy, rule.in(3), rule.in(3)};
    }
    case Op::kAttentionGrad: {
      rule.require(node.inputs.size() >= 6, "has doutput, q, k, v, output and log_sum_exp");
      const TensorType& q = rule.floating(1, 2);
      for (const std::size_t i : {0, 2, 3, 4}) rule.expect(i, q);
      const auto& attributes = rule.attributes<AttentionAttributes>();
      const AttentionForm form = attention_form(node);
      rule.expect(5, {wide(q.dtype), {q.shape[0], 2 * attributes.heads}});
      require_attention_context(rule, form, q.shape[0], wide(q.dtype));
      Types types = {q, q, q};
      for (std::size_t bias = 0; attributes.table_gradients && bias < AttentionForm::kBiases; ++bias) {
        if (form.has_bias[bias]) types.push_back(rule.in(form.table(bias)));
      }
      return types;
    }
    case Op::kPairScoresGrad:
      rule.require(node.row_count == kNoValue, "has no row count");
      return infer_pair_scores_grad(rule);
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kTanhGrad:
      rule.inputs(2);
      rule.floating(0, 2);
      rule.expect(1, rule.in(0));
      return {rule.in(0)};
    default:
      rule.require(false, "has no shape rule");
      return {};
  }
}

Types infer_update(const Rule& rule, const Node& node) {
  switch (node.op) {
    case Op::kAccumulate:
      rule.inputs(3);
      rule.expect(1, rule.in(0));
      rule.expect(2, i32({1}));
      return {rule.in(0)};
    case Op::kMergeRowGrads: {
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
    case Op::kSumSquares:
      rule.inputs(1);
      rule.require(is_floating(rule.in(0).dtype), "sums a floating tensor");
      return {{DType::kF64, {1}}};
    case Op::kGradientNorm: {
      const std::size_t scalars = rule.attributes<GradientNormAttributes>().unscales ? 2 : 1;
      rule.require(rule.count() > scalars, "takes max_grad_norm, unscale if it unscales, and sums of squares");
      for (std::size_t i = 0; i < rule.count(); ++i) rule.expect(i, {i < scalars ? DType::kF32 : DType::kF64, {1}});
      return {rule.in(0), rule.in(0)};
    }
    case Op::kAdamW:
    case Op::kAdamWRows:
    case Op::kAdafactor:
    case Op::kAdafactorRows:
      return infer_parameter_update(rule, node);
    default:
      rule.require(false, "has no shape rule");
      return {};
  }
}

Types infer_transfer(const Rule& rule, const Node& node) {
  const auto& parts = rule.attributes<TransferAttributes>().parts;
  rule.inputs(node.op == Op::kFetchBegin ? 0 : parts.size());
  Types types;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (node.op != Op::kFetchBegin) rule.expect(i, parts[i].type);
    if (node.op != Op::kStoreEnd) types.push_back(parts[i].type);
  }
  return types;
}

}  // namespace

std::vector<TensorType> infer_types(const Graph& graph, const Node& node) {
  const Rule rule(graph, node);
  if (is_transfer(node.op)) return infer_transfer(rule, node);
  if (node.op <= Op::kSpanCrossEntropy) return infer_forward(rule, node);
  if (node.op <= Op::kTanhGrad) return infer_backward(rule, node);
  return infer_update(rule, node);
}

}  // namespace plimsoll
