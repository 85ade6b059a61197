#include "families/parts/bert_layers.h"

#include <fmt/format.h>

namespace plimsoll {
namespace {

using Part = ParameterSpec::Part;

std::string layer_prefix(const BertLayers& form, std::int64_t layer) {
  return fmt::format("{}{}.", form.prefix, layer);
}

const LayerShape& shape_of(const BertLayers& form, std::int64_t layer) {
  return form.layers[static_cast<std::size_t>(layer)];
}

// Returns the columns of a layer's queries, keys and values: those of its heads side by side.
std::int64_t attention_width(const BertLayers& form, std::int64_t layer) {
  return shape_of(form, layer).attention_heads * form.head_size;
}

// Applies dense, dropout, add and LayerNorm: the second half of both sublayers.
ValueId residual(ModelBuilder& builder, const BertLayers& form, const LayerInputs& inputs, const std::string& name,
                 ValueId x, ValueId skip) {
  ValueId y = builder.dense(name + ".dense", x, inputs.rows);
  y = builder.drop(name + ".dropout", y, form.hidden_dropout, inputs.context.row_keys, inputs.rows);
  y = add(builder.graph(), name + ".add", y, skip, inputs.rows);
  return builder.norm(name + ".LayerNorm", y, form.layer_norm_eps, inputs.rows);
}

}  // namespace

void add_bert_layers(std::vector<ParameterSpec>& specs, const BertLayers& form) {
  const std::int64_t d = form.hidden_size;
  for (std::int64_t i = 0; i < std::ssize(form.layers); ++i) {
    const std::string layer = layer_prefix(form, i);
    const std::int64_t a = attention_width(form, i), f = shape_of(form, i).intermediate_size;
    const std::size_t first = specs.size();
    for (const char* part : {"query", "key", "value"}) {
      add_linear(specs, layer + "attention.self." + part, a, d, Part::kEncoderMatrix);
    }
    add_linear(specs, layer + "attention.output.dense", d, a, Part::kEncoderMatrix);
    add_layer_norm(specs, layer + "attention.output.LayerNorm", d);
    add_linear(specs, layer + "intermediate.dense", f, d, Part::kEncoderMatrix);
    add_linear(specs, layer + "output.dense", d, f, Part::kEncoderMatrix);
    add_layer_norm(specs, layer + "output.LayerNorm", d);
    for (std::size_t s = first; s < specs.size(); ++s) specs[s].layer = i;
  }
}

ValueId append_bert_layers(ModelBuilder& builder, const BertLayers& form, ValueId hidden, const LayerInputs& inputs) {
  Graph& graph = builder.graph();
  for (std::int64_t i = 0; i < std::ssize(form.layers); ++i) {
    const std::string layer = layer_prefix(form, i), self = layer + "attention.self";
    const ValueId q = builder.dense(self + ".query", hidden, inputs.rows);
    const ValueId k = builder.dense(self + ".key", hidden, inputs.rows);
    const ValueId v = builder.dense(self + ".value", hidden, inputs.rows);
    AttentionAttributes attributes = form.attention;
    attributes.heads = shape_of(form, i).attention_heads;
    attributes.dropout_p = builder.rate(form.attention_dropout);
    attributes.site = builder.next_site();
    const AttentionContext& context =
        inputs.own_contexts.empty() ? inputs.context : inputs.own_contexts[static_cast<std::size_t>(i)];
    const ValueId attended = residual(builder, form, inputs, layer + "attention.output",
                                      attention(graph, self, q, k, v, context, attributes, inputs.rows), hidden);
    const ValueId expanded =
        add_single(graph, {.op = Op::kGelu,
                           .name = layer + "intermediate.gelu",
                           .inputs = {builder.dense(layer + "intermediate.dense", attended, inputs.rows)},
                           .row_count = inputs.rows});
    hidden = residual(builder, form, inputs, layer + "output", expanded, attended);
  }
  return hidden;
}

std::vector<LinearMap> bert_linear_maps(const BertLayers& form) {
  const std::int64_t d = form.hidden_size;
  std::vector<LinearMap> maps;
  for (std::int64_t i = 0; i < std::ssize(form.layers); ++i) {
    const std::string layer = layer_prefix(form, i);
    const std::int64_t a = attention_width(form, i), f = shape_of(form, i).intermediate_size;
    for (const char* part : {"query", "key", "value"}) maps.push_back({layer + "attention.self." + part, a, d});
    maps.push_back({layer + "attention.output.dense", d, a});
    maps.push_back({layer + "intermediate.dense", f, d});
    maps.push_back({layer + "output.dense", d, f});
  }
  return maps;
}

std::vector<PrunableUnits> bert_prunable(const BertLayers& form) {
  std::vector<PrunableUnits> all;
  for (std::int64_t i = 0; i < std::ssize(form.layers); ++i) {
    const std::string layer = layer_prefix(form, i), self = layer + "attention.self.";
    all.push_back({.kind = PrunableUnits::Kind::kHeads,
                   .layer = i,
                   .units = shape_of(form, i).attention_heads,
                   .streams = {{.producers = {self + "query", self + "key", self + "value"},
                                .consumer = layer + "attention.output.dense",
                                .width = form.head_size}},
                   .key = kHeadsKey,
                   .tables = {}});
    all.push_back({.kind = PrunableUnits::Kind::kColumns,
                   .layer = i,
                   .units = shape_of(form, i).intermediate_size,
                   .streams = {{.producers = {layer + "intermediate.dense"}, .consumer = layer + "output.dense"}},
                   .key = kColumnsKey,
                   .tables = {}});
  }
  return all;
}

std::set<std::string> bert_layer_outputs(const BertLayers& form) {
  std::set<std::string> names;
  for (std::int64_t i = 0; i < std::ssize(form.layers); ++i) names.insert(layer_prefix(form, i) + "output.LayerNorm");
  return names;
}

}  // namespace plimsoll
