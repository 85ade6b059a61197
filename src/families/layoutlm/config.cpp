#include "families/layoutlm/layoutlm.h"

namespace plimsoll {

LayoutLMConfig read_layoutlm(const ConfigReader& reader) {
  LayoutLMConfig c;
  read_bert_values(reader, c, false);
  read_coordinates(reader, c.max_2d_position_embeddings);
  reader.require("position_embedding_type", "absolute", "relative position embeddings are not supported");
  reader.require("is_decoder", false, "decoders are not supported");
  reader.require("add_cross_attention", false, "decoders are not supported");
  return c;
}

void write_layoutlm(const LayoutLMConfig& c, nlohmann::json& object) {
  const bool known = object.contains("classifier_dropout");
  write_bert_values(c, object);
  if (!known) object.erase("classifier_dropout");  // not a key of this family
  object["max_2d_position_embeddings"] = c.max_2d_position_embeddings;
}

}  // namespace plimsoll
