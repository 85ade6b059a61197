#include "families/bert/bert.h"

namespace plimsoll {

BertKind bert_kind() {
  return {.model_type = "bert",
          .class_name = "Bert",
          .prefix = "bert",
          .vocab_size = 30522,
          .pad_token_id = 0,
          .has_pooler = true};
}

BertKind roberta_kind() {
  return {.model_type = "roberta",
          .class_name = "Roberta",
          .prefix = "roberta",
          .vocab_size = 50265,
          .pad_token_id = 1,
          .positions_after_padding = true};
}

BertKind xlm_roberta_kind() {
  BertKind kind = roberta_kind();
  kind.model_type = "xlm-roberta";
  kind.class_name = "XLMRoberta";
  kind.vocab_size = 30522;
  return kind;
}

BertConfig read_bert(const ConfigReader& reader, const BertKind& kind) {
  BertConfig c;
  c.kind = kind;
  c.vocab_size = kind.vocab_size;
  c.pad_token_id = kind.pad_token_id;
  read_bert_values(reader, c, kind.positions_after_padding);
  reader.require("position_embedding_type", "absolute", "relative position embeddings are not supported");
  reader.require("is_decoder", false, "decoders are not supported");
  reader.require("add_cross_attention", false, "decoders are not supported");
  return c;
}

void write_bert(const BertConfig& c, nlohmann::json& object) {
  write_bert_values(c, object);
  if (!c.kind.positions_after_padding) return;
  if (!object.contains("bos_token_id")) object["bos_token_id"] = 0;
  if (!object.contains("eos_token_id")) object["eos_token_id"] = 2;
}

}  // namespace plimsoll
