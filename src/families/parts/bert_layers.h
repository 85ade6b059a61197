// The layers of BERT, which many families have under the same names: self-attention, then a feed-forward network, each
// with dropout, a residual sum and LayerNorm behind it (Devlin et al. 2018). They differ in what attention sees.
//
//   add_bert_layers(specs, form);
//   const ValueId hidden = append_bert_layers(builder, form, embedded, {.context = context, .rows = rows});
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/build.h"
#include "model/builder.h"
#include "model/definition.h"

namespace plimsoll {

struct BertLayers {
  std::string prefix;  // of their names: "layoutlmv3.encoder.layer."
  std::int64_t layers = 12, hidden_size = 768, heads = 12, intermediate_size = 3072;
  double hidden_dropout = 0.1, attention_dropout = 0.1;
  double layer_norm_eps = 1e-12;
  // What attention's node has beside heads and dropout: distances of biases, the longest sample.
  AttentionAttributes attention{};
};

struct LayerInputs {
  AttentionContext context;
  ValueId rows;  // how many rows are used
};

void add_bert_layers(std::vector<ParameterSpec>& specs, const BertLayers& form);
// Appends all of them to `hidden` [N, D] in the builder's encoder type; returns the last one's output.
ValueId append_bert_layers(ModelBuilder& builder, const BertLayers& form, ValueId hidden, const LayerInputs& inputs);
std::vector<LinearMap> bert_linear_maps(const BertLayers& form);
// The nodes that end the layers.
std::set<std::string> bert_layer_outputs(const BertLayers& form);

}  // namespace plimsoll
