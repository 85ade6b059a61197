// LayoutLMv3 (Huang et al. 2022): text, boxes and a picture's patches in one encoder.
//
// Letters: B samples, Nt packed text rows, V visual tokens a sample, N = Nt + B V rows, D hidden, H heads, F
// intermediate. Inputs have the names and shapes of data/batch.h's arrays.
//
//   const LayoutLMv3Config config = read_layoutlmv3(ConfigReader(object, "model/config.json"));
//   const std::shared_ptr<const Encoder> encoder = layoutlmv3_encoder(config);
#pragma once

#include <cstdint>
#include <memory>

#include "families/parts/bert_config.h"
#include "model/definition.h"

namespace plimsoll {

// The values of config.json, by their names there.
struct LayoutLMv3Config : BertValues {
  LayoutLMv3Config() {
    vocab_size = 50265;
    layer_norm_eps = 1e-5;
    pad_token_id = 1;
  }
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

  ImageForm image() const {
    return {.size = input_size, .patches_per_side = input_size / patch_size, .channels = num_channels};
  }
};

// Throws DataError naming the key for a value that is missing, makes no sense or exceeds what kernels support.
LayoutLMv3Config read_layoutlmv3(const ConfigReader& reader);
void write_layoutlmv3(const LayoutLMv3Config& config, nlohmann::json& object);

std::shared_ptr<const Encoder> layoutlmv3_encoder(const LayoutLMv3Config& config);

}  // namespace plimsoll
