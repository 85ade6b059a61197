// Compiles the examples of src/families.
#include <memory>

#include "families/bert/bert.h"
#include "families/gpt2/gpt2.h"
#include "families/layoutlm/layoutlm.h"
#include "families/layoutlmv3/layoutlmv3.h"
#include "families/lilt/lilt.h"
#include "families/llama/llama.h"
#include "families/model_config.h"
#include "families/parts/bert_config.h"
#include "families/parts/bert_layers.h"
#include "families/parts/text_rows.h"

namespace plimsoll::examples {

void of_bert(const nlohmann::json& object) {
#include "families/bert/bert.h.inc"
}

void of_bert_config(const nlohmann::json& object) {
#include "families/parts/bert_config.h.inc"
}

void of_bert_layers(std::vector<ParameterSpec>& specs, const BertLayers& form, ModelBuilder& builder, ValueId embedded,
                    const AttentionContext& context, ValueId rows) {
#include "families/parts/bert_layers.h.inc"
}

void of_config_reader(const nlohmann::json& object) {
#include "families/parts/config_reader.h.inc"
}

void of_gpt2(const nlohmann::json& object) {
#include "families/gpt2/gpt2.h.inc"
}

void of_layoutlm(const nlohmann::json& object) {
#include "families/layoutlm/layoutlm.h.inc"
}

void of_layoutlmv3(const nlohmann::json& object) {
#include "families/layoutlmv3/layoutlmv3.h.inc"
}

void of_llama(const nlohmann::json& object) {
#include "families/llama/llama.h.inc"
}

void of_lilt(const nlohmann::json& object) {
#include "families/lilt/lilt.h.inc"
}

void of_model_config() {
#include "families/model_config.h.inc"
}

void of_text_rows(const ModelCapacity& capacity, const ModelBuilder& builder) {
#include "families/parts/text_rows.h.inc"
}

}  // namespace plimsoll::examples
