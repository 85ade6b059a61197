// LayoutLMv3Config: config.json as `transformers` writes it, with its names and defaults, checked on reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct LayoutLMv3Config {
  std::int64_t vocab_size = 50265;
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
  double layer_norm_eps = 1e-5;
  std::int64_t pad_token_id = 1;
  std::int64_t max_2d_position_embeddings = 1024;
  std::int64_t coordinate_size = 128;
  std::int64_t shape_size = 128;
  bool has_relative_attention_bias = true;
  std::int64_t rel_pos_bins = 32;
  std::int64_t max_rel_pos = 128;
  bool has_spatial_attention_bias = true;
  std::int64_t rel_2d_pos_bins = 64;
  std::int64_t max_rel_2d_pos = 256;
  std::int64_t input_size = 224;
  std::int64_t num_channels = 3;
  std::int64_t patch_size = 16;
  std::vector<std::string> labels;                   // by id, from id2label
  nlohmann::json source = nlohmann::json::object();  // as read: what we do not know is written back unchanged

  std::int64_t grid() const { return input_size / patch_size; }
  std::int64_t patches() const { return grid() * grid(); }                              // P
  std::int64_t visual_tokens() const { return patches() + 1; }                          // V
  std::int64_t num_labels() const { return static_cast<std::int64_t>(labels.size()); }  // C
  // The token head of `transformers`: one linear below ten labels, an MLP from ten on.
  bool mlp_head() const { return num_labels() >= 10; }
  double head_dropout() const { return classifier_dropout < 0 ? hidden_dropout_prob : classifier_dropout; }
};

// Reads DIR/config.json. Throws DataError for another model type, missing or senseless values, naming the key.
LayoutLMv3Config read_config(const std::filesystem::path& model_dir);
LayoutLMv3Config parse_config(const nlohmann::json& json, const std::string& where);

// config.json for `transformers`: `source` with our values, labels and architecture put in.
nlohmann::json config_json(const LayoutLMv3Config& config);

// "layoutlmv3-tiny", "-small", "-base", "-large": shapes to train from scratch. The last two have the published shapes.
std::vector<std::string> preset_names();
bool is_preset(std::string_view name);
LayoutLMv3Config preset_config(std::string_view name);

}  // namespace plimsoll
