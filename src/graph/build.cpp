#include "graph/build.h"

namespace plimsoll {

ValueId add_single(Graph& graph, Node node) {
  const std::vector<ValueId> outputs = graph.add_node(std::move(node));
  check(outputs.size() == 1, "add_single is for ops with one output");
  return outputs.front();
}

ValueId embedding(Graph& graph, std::string name, ValueId table, ValueId ids, EmbeddingAttributes attributes,
                  ValueId rows) {
  attributes.table_rows = graph.type(table).shape[0];
  return add_single(graph, {.op = Op::kEmbedding,
                            .name = std::move(name),
                            .attributes = attributes,
                            .inputs = {table, ids},
                            .row_count = rows});
}

ValueId spatial_embedding(Graph& graph, std::string name, const SpatialTables& tables, ValueId bbox, bool sums,
                          ValueId rows) {
  const Shape &x = graph.type(tables.x).shape, &h = graph.type(tables.h).shape;
  const SpatialAttributes attributes{.table_rows = x[0], .coordinate_size = x[1], .shape_size = h[1], .sums = sums};
  return add_single(graph, {.op = Op::kSpatialEmbedding,
                            .name = std::move(name),
                            .attributes = attributes,
                            .inputs = {tables.x, tables.y, tables.h, tables.w, bbox},
                            .row_count = rows});
}

ValueId add(Graph& graph, std::string name, ValueId a, ValueId b, ValueId rows) {
  return add_single(graph, {.op = Op::kAdd, .name = std::move(name), .inputs = {a, b}, .row_count = rows});
}

ValueId linear(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId bias, ValueId rows) {
  Node node{.op = Op::kLinear, .name = std::move(name), .inputs = {x, weight}, .row_count = rows};
  if (bias != kNoValue) node.inputs.push_back(bias);
  return add_single(graph, std::move(node));
}

ValueId linear_add(Graph& graph, std::string name, ValueId x, ValueId weight, ValueId addend, ValueId rows) {
  return add_single(graph,
                    {.op = Op::kLinearAdd, .name = std::move(name), .inputs = {x, weight, addend}, .row_count = rows});
}

ValueId scale(Graph& graph, std::string name, ValueId x, double factor, ValueId rows) {
  if (factor == 1) return x;
  return add_single(graph, {.op = Op::kScale,
                            .name = std::move(name),
                            .attributes = ScaleAttributes{factor},
                            .inputs = {x},
                            .row_count = rows});
}

ValueId multiply(Graph& graph, std::string name, ValueId a, ValueId b, ValueId rows) {
  return add_single(graph, {.op = Op::kMultiply, .name = std::move(name), .inputs = {a, b}, .row_count = rows});
}

ValueId affine(Graph& graph, std::string name, ValueId x, ValueId gamma, ValueId beta, ValueId rows) {
  Node node{.op = Op::kAffine, .name = std::move(name), .inputs = {x, gamma}, .row_count = rows};
  if (beta != kNoValue) node.inputs.push_back(beta);
  return add_single(graph, std::move(node));
}

ValueId inverse_row_norms(Graph& graph, std::string name, ValueId weight, ValueId a, ValueId b, double factor) {
  return add_single(graph, {.op = Op::kInverseRowNorms,
                            .name = std::move(name),
                            .attributes = ScaleAttributes{factor},
                            .inputs = {weight, a, b}});
}

ValueId concat_heads(Graph& graph, std::string name, ValueId first, ValueId second, HeadsAttributes attributes,
                     ValueId rows) {
  attributes.first_size = graph.type(first).shape[1] / attributes.heads;
  attributes.second = second != kNoValue;
  Node node{.op = Op::kConcatHeads, .name = std::move(name), .inputs = {first}, .row_count = rows};
  if (attributes.second) {
    attributes.second_size = graph.type(second).shape[1] / attributes.heads;
    node.inputs.push_back(second);
  }
  node.attributes = attributes;
  return add_single(graph, std::move(node));
}

HeadsValues split_heads(Graph& graph, std::string name, ValueId x, HeadsAttributes attributes, ValueId rows) {
  const std::vector<ValueId> outputs = graph.add_node(
      {.op = Op::kSplitHeads, .name = std::move(name), .attributes = attributes, .inputs = {x}, .row_count = rows});
  return {outputs[0], attributes.second ? outputs[1] : kNoValue};
}

ValueId rms_norm(Graph& graph, std::string name, ValueId x, ValueId gamma, double eps, ValueId rows) {
  return graph.add_node({.op = Op::kRmsNorm,
                         .name = std::move(name),
                         .attributes = RmsNormAttributes{eps},
                         .inputs = {x, gamma},
                         .row_count = rows})[0];
}

ValueId rotary_table(Graph& graph, std::string name, ValueId positions, ValueId frequencies, ValueId rows) {
  return add_single(
      graph,
      {.op = Op::kRotaryTable, .name = std::move(name), .inputs = {positions, frequencies}, .row_count = rows});
}

ValueId rotary(Graph& graph, std::string name, ValueId x, ValueId table, ValueId rows) {
  return add_single(graph, {.op = Op::kRotary,
                            .name = std::move(name),
                            .attributes = RotaryAttributes{},
                            .inputs = {x, table},
                            .row_count = rows});
}

ValueId silu_multiply(Graph& graph, std::string name, ValueId gate, ValueId x, ValueId rows) {
  return add_single(
      graph, {.op = Op::kSiluMultiply, .name = std::move(name), .inputs = {gate, x}, .row_count = rows});
}

LayerNormValues layer_norm(Graph& graph, std::string name, ValueId x, ValueId gamma, ValueId beta, double eps,
                           ValueId rows) {
  const std::vector<ValueId> outputs = graph.add_node({.op = Op::kLayerNorm,
                                                       .name = std::move(name),
                                                       .attributes = LayerNormAttributes{eps},
                                                       .inputs = {x, gamma, beta},
                                                       .row_count = rows});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId dropout(Graph& graph, std::string name, ValueId x, ValueId row_keys, ValueId dropout_key,
                DropoutAttributes attributes, ValueId rows) {
  if (attributes.p == 0) return x;
  return add_single(graph, {.op = Op::kDropout,
                            .name = std::move(name),
                            .attributes = attributes,
                            .inputs = {x, row_keys, dropout_key},
                            .row_count = rows});
}

ValueId cast(Graph& graph, std::string name, ValueId x, DType to, ValueId rows) {
  if (graph.type(x).dtype == to) return x;
  return add_single(
      graph,
      {.op = Op::kCast, .name = std::move(name), .attributes = CastAttributes{to}, .inputs = {x}, .row_count = rows});
}

namespace {

void set_biases(AttentionAttributes& attributes, const AttentionContext& context) {
  attributes.position_bias = context.position_table != kNoValue;
  attributes.spatial_bias = context.x_table != kNoValue;
}

// Adds the inputs that attention has only with a bias.
void add_biases(std::vector<ValueId>& inputs, const AttentionContext& context) {
  if (context.position_table != kNoValue || context.x_table != kNoValue) {
    inputs.push_back(context.relative_coordinates);
  }
  if (context.position_table != kNoValue) inputs.push_back(context.position_table);
  if (context.x_table != kNoValue) inputs.insert(inputs.end(), {context.x_table, context.y_table});
}

}  // namespace

ValueId attention(Graph& graph, std::string name, ValueId q, ValueId k, ValueId v, const AttentionContext& context,
                  AttentionAttributes attributes, ValueId rows) {
  set_biases(attributes, context);
  attributes.made_biases = context.biases != kNoValue;
  std::vector<ValueId> inputs = {
      q, k, v, context.sample_offsets, context.key_mask, context.row_keys, context.dropout_key};
  add_biases(inputs, context);
  if (attributes.made_biases) inputs.push_back(context.biases);
  return graph.add_node({.op = Op::kAttention,
                         .name = std::move(name),
                         .attributes = attributes,
                         .inputs = std::move(inputs),
                         .row_count = rows})[0];
}

ValueId attention_bias(Graph& graph, std::string name, const AttentionContext& context, AttentionAttributes attributes,
                       DType to, ValueId rows) {
  set_biases(attributes, context);
  attributes.made_biases = false;
  std::vector<ValueId> inputs = {context.sample_offsets, context.key_mask};
  add_biases(inputs, context);
  return add_single(graph, {.op = Op::kAttentionBias,
                            .name = std::move(name),
                            .attributes = AttentionBiasAttributes{.attention = attributes, .to = to},
                            .inputs = std::move(inputs),
                            .row_count = rows});
}

}  // namespace plimsoll
