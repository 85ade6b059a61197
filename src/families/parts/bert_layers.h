// The layers of BERT, which many families have under the same names: self-attention, then a feed-forward network, each
// followed by dropout, a residual sum and LayerNorm (Devlin et al. 2018). Families differ in what attention sees.
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

// How wide a layer is, by the keys of an entry of config.json's `pruned_layers`. All layers are alike unless they are
// pruned.
struct LayerShape {
  std::int64_t attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t layout_intermediate_size = 0;  // of LiLT's second stream

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

inline constexpr const char *kHeadsKey = "attention_heads", *kColumnsKey = "intermediate_size",
                            *kLayoutColumnsKey = "layout_intermediate_size";

struct BertLayers {
  std::string prefix;              // of their names: "layoutlmv3.encoder.layer."
  std::vector<LayerShape> layers;  // by layer
  std::int64_t hidden_size = 768, head_size = 64;
  double hidden_dropout = 0.1, attention_dropout = 0.1;
  double layer_norm_eps = 1e-12;
  // What attention's node has besides heads and dropout: distances of biases, the longest sample.
  AttentionAttributes attention{};
};

struct LayerInputs {
  AttentionContext context;
  ValueId rows;  // how many rows are used
  // By layer, if layers have their own tables of biases; empty: all layers use `context`.
  std::vector<AttentionContext> own_contexts{};
};

void add_bert_layers(std::vector<ParameterSpec>& specs, const BertLayers& form);
// Appends all of them to `hidden` [N, D] in the builder's encoder type; returns the last one's output.
ValueId append_bert_layers(ModelBuilder& builder, const BertLayers& form, ValueId hidden, const LayerInputs& inputs);
std::vector<LinearMap> bert_linear_maps(const BertLayers& form);
std::vector<PrunableUnits> bert_prunable(const BertLayers& form);
// Returns the nodes that end the layers.
std::set<std::string> bert_layer_outputs(const BertLayers& form);

}  // namespace plimsoll
