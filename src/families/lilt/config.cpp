#include <fmt/format.h>

#include "families/lilt/lilt.h"

namespace plimsoll {

LiltConfig read_lilt(const ConfigReader& reader) {
  LiltConfig c;
  read_bert_values(reader, c, true);
  read_coordinates(reader, c.max_2d_position_embeddings);
  reader.integer("channel_shrink_ratio", c.channel_shrink_ratio, 1, 10000);
  reader.require("position_embedding_type", "absolute", "relative position embeddings are not supported");
  reader.require("is_decoder", false, "decoders are not supported");
  reader.require("add_cross_attention", false, "decoders are not supported");
  const std::int64_t head_size = c.hidden_size / c.num_attention_heads;
  if (head_size % c.channel_shrink_ratio != 0 || c.intermediate_size < c.channel_shrink_ratio) {
    reader.fail(
        "channel_shrink_ratio", "the ratio does not divide the size of a head",
        fmt::format("a divisor of {} (hidden_size / num_attention_heads), at most intermediate_size", head_size));
  }
  if (c.hidden_size % 6 != 0) {
    reader.fail("hidden_size", "the six embeddings of a box do not divide the hidden size", "a multiple of 6");
  }
  return c;
}

void write_lilt(const LiltConfig& c, nlohmann::json& object) {
  write_bert_values(c, object);
  object["channel_shrink_ratio"] = c.channel_shrink_ratio;
  object["max_2d_position_embeddings"] = c.max_2d_position_embeddings;
}

}  // namespace plimsoll
