// BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): text alone. They differ
// in defaults and names, and in how positions are counted.
//
// Letters: B samples, N packed rows, all of text. Inputs have the names and shapes of data/batch.h's arrays.
//
//   const BertConfig config = read_bert(ConfigReader(object, "model/config.json"), roberta_kind());
//   const std::shared_ptr<const Encoder> encoder = bert_encoder(config);
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "families/parts/bert_config.h"
#include "model/definition.h"

namespace plimsoll {

struct BertKind {
  std::string_view model_type, class_name, prefix;
  std::int64_t vocab_size = 0, pad_token_id = 0;  // the defaults of `transformers`
  // Positions begin after the padding token's (tensor/input_spec.h), whose row of the table gets no gradient.
  bool positions_after_padding = false;
  bool has_pooler = false;  // between the first row and the class of a page
};
BertKind bert_kind();
BertKind roberta_kind();
BertKind xlm_roberta_kind();

struct BertConfig : BertValues {
  BertKind kind;
};

// Throws DataError naming the key for a value that is missing, makes no sense or exceeds what kernels support.
BertConfig read_bert(const ConfigReader& reader, const BertKind& kind);
void write_bert(const BertConfig& config, nlohmann::json& object);

std::shared_ptr<const Encoder> bert_encoder(const BertConfig& config);

}  // namespace plimsoll
