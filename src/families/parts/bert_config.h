// BertValues: what the config.json files of BERT and of its relatives have in common, by the names there.
//
//   BertValues values;
//   read_bert_values(ConfigReader(object, "model/config.json"), values, false);
#pragma once

#include <cstdint>
#include <vector>

#include "families/parts/bert_layers.h"
#include "families/parts/config_reader.h"

namespace plimsoll {

struct BertValues {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;         // D
  std::int64_t num_hidden_layers = 12;    // L
  std::int64_t num_attention_heads = 12;  // H
  std::int64_t intermediate_size = 3072;  // F
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double classifier_dropout = -1;  // below 0: hidden_dropout_prob
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::int64_t pad_token_id = 0;

  // The layers of a pruned model, whose widths differ (model_config.h); empty: all layers are whole.
  std::vector<LayerShape> pruned_layers{};

  std::int64_t head_size() const { return hidden_size / num_attention_heads; }
  double head_dropout() const { return classifier_dropout < 0 ? hidden_dropout_prob : classifier_dropout; }
};

// Keys that are absent keep their values. `positions_after_padding`: the padding token has a row of the table of
// positions, too (tensor/input_spec.h). Throws DataError for a value that makes no sense or exceeds what kernels
// support.
void read_bert_values(const ConfigReader& reader, BertValues& values, bool positions_after_padding);
void write_bert_values(const BertValues& values, nlohmann::json& object);

// Reads max_2d_position_embeddings, the rows of a family's tables of boxes: enough for coordinates in thousandths of a
// page, and at most as many as sizes can use (graph/box_size.h).
void read_coordinates(const ConfigReader& reader, std::int64_t& rows);

// Returns the shapes of all layers; `layout_intermediate_size` is that of a whole layer's second stream.
std::vector<LayerShape> layer_shapes(const BertValues& values, std::int64_t layout_intermediate_size = 0);

// Returns the layers of such a model, of parameters "PREFIX.encoder.layer.…".
BertLayers bert_layers(std::string_view prefix, const BertValues& values);

}  // namespace plimsoll
