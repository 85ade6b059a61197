#include "families/parts/bert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dropout.h"

namespace plimsoll {

using nlohmann::json;

namespace {

// Reads `pruned_layers`: an object for each layer, with the numbers of its remaining units.
void read_pruned_layers(const ConfigReader& reader, BertValues& v) {
  constexpr const char* kKey = "pruned_layers";
  if (!reader.has(kKey)) return;
  const json& list = reader.object().at(kKey);
  if (!list.is_array() || std::ssize(list) != v.num_hidden_layers) {
    reader.fail(kKey, "pruned layers are not listed one by one", fmt::format("{} objects", v.num_hidden_layers),
                "use a model directory as plimsoll prune writes it");
  }
  for (const json& entry : list) {
    LayerShape shape{.attention_heads = v.num_attention_heads, .intermediate_size = v.intermediate_size};
    const auto read = [&](const char* key, std::int64_t& value, std::int64_t most) {
      if (!entry.is_object()) reader.fail(kKey, "a pruned layer is not an object", "objects");
      if (!entry.contains(key)) return;
      const json& number = entry.at(key);
      if (!number.is_number_integer() || number.get<std::int64_t>() < 1 || number.get<std::int64_t>() > most) {
        reader.fail(kKey, fmt::format("a pruned layer's {} is not in its range", key),
                    fmt::format("a whole number from 1 to {}", most));
      }
      value = number.get<std::int64_t>();
    };
    read(kHeadsKey, shape.attention_heads, v.num_attention_heads);
    read(kColumnsKey, shape.intermediate_size, v.intermediate_size);
    read(kLayoutColumnsKey, shape.layout_intermediate_size, v.intermediate_size);
    v.pruned_layers.push_back(shape);
  }
}

json pruned_layers_json(const std::vector<LayerShape>& layers) {
  json list = json::array();
  for (const LayerShape& shape : layers) {
    json entry = {{kHeadsKey, shape.attention_heads}, {kColumnsKey, shape.intermediate_size}};
    if (shape.layout_intermediate_size > 0) entry[kLayoutColumnsKey] = shape.layout_intermediate_size;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

void read_bert_values(const ConfigReader& reader, BertValues& v, bool positions_after_padding) {
  constexpr std::int64_t kMillion = 1000000;
  reader.integer("vocab_size", v.vocab_size, 2, 10 * kMillion);
  reader.integer("hidden_size", v.hidden_size, 1, kMillion);
  reader.integer("num_hidden_layers", v.num_hidden_layers, 1, 1000);
  reader.integer("num_attention_heads", v.num_attention_heads, 1, 10000);
  reader.integer("intermediate_size", v.intermediate_size, 1, kMillion);
  reader.number("hidden_dropout_prob", v.hidden_dropout_prob, 0, 0.999);
  reader.number("attention_probs_dropout_prob", v.attention_probs_dropout_prob, 0, 0.999);
  reader.number("classifier_dropout", v.classifier_dropout, 0, 0.999);
  reader.integer("max_position_embeddings", v.max_position_embeddings, 4, kVisualCoordinate);
  reader.integer("type_vocab_size", v.type_vocab_size, 1, 1000);
  reader.number("initializer_range", v.initializer_range, 0, 100);
  reader.number("layer_norm_eps", v.layer_norm_eps, 1e-20, 1);
  // Tokens' positions may begin after its row of the table.
  const std::int64_t last = v.vocab_size - 1;
  reader.integer("pad_token_id", v.pad_token_id, 0,
                 positions_after_padding ? std::min(last, v.max_position_embeddings - 2) : last);
  reader.require("hidden_act", "gelu", "unknown activation");
  if (v.hidden_size % v.num_attention_heads != 0) {
    reader.fail("num_attention_heads", "heads do not divide the hidden size",
                fmt::format("a divisor of {}", v.hidden_size));
  }
  read_pruned_layers(reader, v);
}

void write_bert_values(const BertValues& v, json& object) {
  object["vocab_size"] = v.vocab_size;
  object["hidden_size"] = v.hidden_size;
  object["num_hidden_layers"] = v.num_hidden_layers;
  object["num_attention_heads"] = v.num_attention_heads;
  object["intermediate_size"] = v.intermediate_size;
  object["hidden_act"] = "gelu";
  object["hidden_dropout_prob"] = v.hidden_dropout_prob;
  object["attention_probs_dropout_prob"] = v.attention_probs_dropout_prob;
  object["classifier_dropout"] = v.classifier_dropout < 0 ? json() : json(v.classifier_dropout);
  object["max_position_embeddings"] = v.max_position_embeddings;
  object["type_vocab_size"] = v.type_vocab_size;
  object["initializer_range"] = v.initializer_range;
  object["layer_norm_eps"] = v.layer_norm_eps;
  object["pad_token_id"] = v.pad_token_id;
  if (!v.pruned_layers.empty()) object["pruned_layers"] = pruned_layers_json(v.pruned_layers);
}

void read_coordinates(const ConfigReader& reader, std::int64_t& rows) {
  reader.integer("max_2d_position_embeddings", rows, 1001, 1024);
}

std::vector<LayerShape> layer_shapes(const BertValues& v, std::int64_t layout_intermediate_size) {
  std::vector<LayerShape> shapes = v.pruned_layers;
  if (shapes.empty()) {
    shapes.resize(static_cast<std::size_t>(v.num_hidden_layers),
                  {.attention_heads = v.num_attention_heads, .intermediate_size = v.intermediate_size});
  }
  for (LayerShape& shape : shapes) {
    if (shape.layout_intermediate_size == 0) shape.layout_intermediate_size = layout_intermediate_size;
  }
  return shapes;
}

BertLayers bert_layers(std::string_view prefix, const BertValues& v) {
  return {.prefix = fmt::format("{}.encoder.layer.", prefix),
          .layers = layer_shapes(v),
          .hidden_size = v.hidden_size,
          .head_size = v.head_size(),
          .hidden_dropout = v.hidden_dropout_prob,
          .attention_dropout = v.attention_probs_dropout_prob,
          .layer_norm_eps = v.layer_norm_eps,
          .attention = {.longest_sample = v.max_position_embeddings}};
}

}  // namespace plimsoll
