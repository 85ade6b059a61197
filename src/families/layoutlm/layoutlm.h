// LayoutLM (Xu et al. 2019): BERT with the corners and sizes of words' boxes also added to its embeddings.
//
// `transformers` gives every LayoutLM a pooler; here only the classifier of pages has one, because nothing else reads it.
//
// Letters: B samples, N packed rows, all of text. Inputs have the names and shapes of data/batch.h's arrays.
//
//   const LayoutLMConfig config = read_layoutlm(ConfigReader(object, "model/config.json"));
//   const std::shared_ptr<const Encoder> encoder = layoutlm_encoder(config);
#pragma once

#include <cstdint>
#include <memory>

#include "families/parts/bert_config.h"
#include "model/definition.h"

namespace plimsoll {

// The values of config.json, by their names there.
struct LayoutLMConfig : BertValues {
  std::int64_t max_2d_position_embeddings = 1024;
};

// Throws DataError naming the key for a value that is missing, makes no sense or exceeds what kernels support.
LayoutLMConfig read_layoutlm(const ConfigReader& reader);
void write_layoutlm(const LayoutLMConfig& config, nlohmann::json& object);

std::shared_ptr<const Encoder> layoutlm_encoder(const LayoutLMConfig& config);

}  // namespace plimsoll
