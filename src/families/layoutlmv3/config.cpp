#include <fmt/format.h>

#include <algorithm>

#include "base/dropout.h"
#include "families/layoutlmv3/layoutlmv3.h"
#include "graph/relative_bucket.h"

namespace plimsoll {
namespace {

using nlohmann::json;

void read_patch_size(const json& object, const ConfigReader& reader, LayoutLMv3Config& config) {
  if (reader.has("patch_size") && object.at("patch_size").is_array()) {
    const json& sizes = object.at("patch_size");
    const bool square = sizes.size() == 2 && sizes[0] == sizes[1] && sizes[0].is_number_integer();
    if (!square || sizes[0].get<std::int64_t>() < 1 || sizes[0].get<std::int64_t>() > 1024) {
      reader.fail("patch_size", "patches must be square", "one whole number from 1 to 1024, or two equal ones");
    }
    config.patch_size = sizes[0].get<std::int64_t>();
    return;
  }
  reader.integer("patch_size", config.patch_size, 1, 1024);
}

// Each direction has half of the bins; half of these are for exact distances, the others for larger ones by logarithm.
void check_bins(const ConfigReader& reader, const char* key, std::int64_t bins, const char* distance_key,
                std::int64_t distance) {
  if (bins % 4 != 0) reader.fail(key, "bins are halved twice", "a multiple of 4");
  if (distance <= bins / 4) {
    reader.fail(distance_key, "the largest distance lies within the exact bins", fmt::format("more than {}", bins / 4));
  }
}

}  // namespace

LayoutLMv3Config read_layoutlmv3(const ConfigReader& reader) {
  const json& object = reader.object();
  LayoutLMv3Config c;
  constexpr std::int64_t kMillion = 1000000;
  read_bert_values(reader, c, true);
  reader.integer("max_2d_position_embeddings", c.max_2d_position_embeddings, 1001, kMillion);
  reader.integer("coordinate_size", c.coordinate_size, 1, kMillion);
  reader.integer("shape_size", c.shape_size, 1, kMillion);
  reader.boolean("has_relative_attention_bias", c.has_relative_attention_bias);
  reader.integer("rel_pos_bins", c.rel_pos_bins, 4, 10000);
  reader.integer("max_rel_pos", c.max_rel_pos, 1, kMostRelativeDistance);
  reader.boolean("has_spatial_attention_bias", c.has_spatial_attention_bias);
  reader.integer("rel_2d_pos_bins", c.rel_2d_pos_bins, 4, 10000);
  reader.integer("max_rel_2d_pos", c.max_rel_2d_pos, 1, kMostRelativeDistance);
  reader.integer("input_size", c.input_size, 1, 4096);
  reader.integer("num_channels", c.num_channels, 3, 3);
  read_patch_size(object, reader, c);
  for (const char* key : {"text_embed", "visual_embed"}) {
    bool present = true;
    reader.boolean(key, present);
    if (!present) reader.fail(key, "text-only and image-only models are not supported", "true");
  }
  if (4 * c.coordinate_size + 2 * c.shape_size != c.hidden_size) {
    reader.fail("coordinate_size", "4 coordinate_size + 2 shape_size is not the hidden size",
                fmt::format("sizes that add up to {}", c.hidden_size));
  }
  if (c.input_size % c.patch_size != 0) {
    reader.fail("input_size", "patches do not tile the image", fmt::format("a multiple of {}", c.patch_size));
  }
  check_bins(reader, "rel_pos_bins", c.rel_pos_bins, "max_rel_pos", c.max_rel_pos);
  check_bins(reader, "rel_2d_pos_bins", c.rel_2d_pos_bins, "max_rel_2d_pos", c.max_rel_2d_pos);
  return c;
}

void write_layoutlmv3(const LayoutLMv3Config& c, json& object) {
  write_bert_values(c, object);
  if (!object.contains("bos_token_id")) object["bos_token_id"] = 0;
  if (!object.contains("eos_token_id")) object["eos_token_id"] = 2;
  object["max_2d_position_embeddings"] = c.max_2d_position_embeddings;
  object["coordinate_size"] = c.coordinate_size;
  object["shape_size"] = c.shape_size;
  object["has_relative_attention_bias"] = c.has_relative_attention_bias;
  object["rel_pos_bins"] = c.rel_pos_bins;
  object["max_rel_pos"] = c.max_rel_pos;
  object["has_spatial_attention_bias"] = c.has_spatial_attention_bias;
  object["rel_2d_pos_bins"] = c.rel_2d_pos_bins;
  object["max_rel_2d_pos"] = c.max_rel_2d_pos;
  object["input_size"] = c.input_size;
  object["num_channels"] = c.num_channels;
  object["patch_size"] = c.patch_size;
  object["text_embed"] = true;
  object["visual_embed"] = true;
}

}  // namespace plimsoll
