#include "families/parts/bert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dropout.h"

namespace plimsoll {

using nlohmann::json;

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
  // Tokens' positions may begin behind its row of the table.
  const std::int64_t last = v.vocab_size - 1;
  reader.integer("pad_token_id", v.pad_token_id, 0,
                 positions_after_padding ? std::min(last, v.max_position_embeddings - 2) : last);
  reader.require("hidden_act", "gelu", "unknown activation");
  if (v.hidden_size % v.num_attention_heads != 0) {
    reader.fail("num_attention_heads", "heads do not divide the hidden size",
                fmt::format("a divisor of {}", v.hidden_size));
  }
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
}

void read_coordinates(const ConfigReader& reader, std::int64_t& rows) {
  reader.integer("max_2d_position_embeddings", rows, 1001, 1024);
}

BertLayers bert_layers(std::string_view prefix, const BertValues& v) {
  return {.prefix = fmt::format("{}.encoder.layer.", prefix),
          .layers = v.num_hidden_layers,
          .hidden_size = v.hidden_size,
          .heads = v.num_attention_heads,
          .intermediate_size = v.intermediate_size,
          .hidden_dropout = v.hidden_dropout_prob,
          .attention_dropout = v.attention_probs_dropout_prob,
          .layer_norm_eps = v.layer_norm_eps,
          .attention = {.longest_sample = v.max_position_embeddings}};
}

}  // namespace plimsoll
