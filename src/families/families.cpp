#include "families/families.h"

#include <algorithm>

#include "families/bert/bert.h"
#include "families/gpt2/gpt2.h"
#include "families/layoutlm/layoutlm.h"
#include "families/layoutlmv3/layoutlmv3.h"
#include "families/lilt/lilt.h"
#include "families/llama/llama.h"

namespace plimsoll {
namespace {

nlohmann::json layoutlmv3_shape(int hidden, int layers, int heads, int intermediate, int coordinate, int shape) {
  return {{"hidden_size", hidden},          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},   {"intermediate_size", intermediate},
          {"coordinate_size", coordinate},  {"shape_size", shape},
          {"max_position_embeddings", 514}, {"type_vocab_size", 1}};
}

nlohmann::json layoutlmv3_tiny() {
  nlohmann::json keys = layoutlmv3_shape(96, 2, 3, 384, 16, 16);
  keys["patch_size"] = 32;  // 49 patches instead of 196: so small a model learns mostly from text
  return keys;
}

nlohmann::json layoutlm_shape(int hidden, int layers, int heads, int intermediate) {
  return {{"hidden_size", hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"intermediate_size", intermediate}};
}

nlohmann::json roberta_shape(int hidden, int layers, int heads, int intermediate) {
  return {{"hidden_size", hidden},          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},   {"intermediate_size", intermediate},
          {"max_position_embeddings", 514}, {"type_vocab_size", 1},
          {"layer_norm_eps", 1e-5}};
}

nlohmann::json lilt_shape(int hidden, int layers, int heads, int intermediate) {
  nlohmann::json keys = roberta_shape(hidden, layers, heads, intermediate);
  keys["vocab_size"] = 50265;
  keys["pad_token_id"] = 1;
  return keys;
}

nlohmann::json llama_shape(int hidden, int layers, int heads, int key_value_heads, int intermediate) {
  return {{"hidden_size", hidden},          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},   {"num_key_value_heads", key_value_heads},
          {"intermediate_size", intermediate}, {"max_position_embeddings", 2048},
          {"tie_word_embeddings", true}};
}

nlohmann::json gpt2_shape(int hidden, int layers, int heads) {
  return {{"n_embd", hidden}, {"n_layer", layers}, {"n_head", heads}};
}

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {
      {.model_type = "layoutlmv3",
       .read = [](const ConfigReader& reader) { return layoutlmv3_encoder(read_layoutlmv3(reader)); },
       .presets = {{"layoutlmv3-large", layoutlmv3_shape(1024, 24, 16, 4096, 171, 170), "microsoft/layoutlmv3-large"},
                   {"layoutlmv3-base", layoutlmv3_shape(768, 12, 12, 3072, 128, 128), "microsoft/layoutlmv3-base"},
                   {"layoutlmv3-small", layoutlmv3_shape(192, 6, 6, 768, 32, 32)},
                   {"layoutlmv3-tiny", layoutlmv3_tiny()}}},
      {.model_type = "bert",
       .read = [](const ConfigReader& reader) { return bert_encoder(read_bert(reader, bert_kind())); },
       .presets = {}},
      {.model_type = "roberta",
       .read = [](const ConfigReader& reader) { return bert_encoder(read_bert(reader, roberta_kind())); },
       .presets = {{"roberta-large", roberta_shape(1024, 24, 16, 4096), "FacebookAI/roberta-large"},
                   {"roberta-base", roberta_shape(768, 12, 12, 3072), "FacebookAI/roberta-base"},
                   {"roberta-small", roberta_shape(192, 6, 6, 768)},
                   {"roberta-tiny", roberta_shape(96, 2, 3, 384)}}},
      {.model_type = "xlm-roberta",
       .read = [](const ConfigReader& reader) { return bert_encoder(read_bert(reader, xlm_roberta_kind())); },
       .presets = {}},
      // From scratch it learns with the embedded byte-level BPE vocabulary, like the presets of other families; the
      // published models have WordPiece. (BERT has no presets: RoBERTa serves to learn from text alone.)
      {.model_type = "layoutlm",
       .read = [](const ConfigReader& reader) { return layoutlm_encoder(read_layoutlm(reader)); },
       .presets = {{"layoutlm-large", layoutlm_shape(1024, 24, 16, 4096), "microsoft/layoutlm-large-uncased"},
                   {"layoutlm-base", layoutlm_shape(768, 12, 12, 3072), "microsoft/layoutlm-base-uncased"},
                   {"layoutlm-small", layoutlm_shape(192, 6, 6, 768)},
                   {"layoutlm-tiny", layoutlm_shape(96, 2, 3, 384)}}},
      {.model_type = "lilt",
       .read = [](const ConfigReader& reader) { return lilt_encoder(read_lilt(reader)); },
       .presets = {{"lilt-base", lilt_shape(768, 12, 12, 3072), "SCUT-DLVCLab/lilt-roberta-en-base"},
                   {"lilt-small", lilt_shape(192, 6, 6, 768)},
                   {"lilt-tiny", lilt_shape(96, 2, 3, 384)}}},
      {.model_type = "llama",
       .read = [](const ConfigReader& reader) { return llama_encoder(read_llama(reader, llama_kind())); },
       .presets = {{"llama-small", llama_shape(192, 6, 6, 2, 512)}, {"llama-tiny", llama_shape(96, 2, 4, 2, 256)}},
       .head = "CausalLM"},
      {.model_type = "mistral",
       .read = [](const ConfigReader& reader) { return llama_encoder(read_llama(reader, mistral_kind())); },
       .presets = {},
       .head = "CausalLM"},
      {.model_type = "qwen2",
       .read = [](const ConfigReader& reader) { return llama_encoder(read_llama(reader, qwen2_kind())); },
       .presets = {},
       .head = "CausalLM"},
      {.model_type = "qwen3",
       .read = [](const ConfigReader& reader) { return llama_encoder(read_llama(reader, qwen3_kind())); },
       .presets = {},
       .head = "CausalLM"},
      {.model_type = "gpt2",
       .read = [](const ConfigReader& reader) { return gpt2_encoder(read_gpt2(reader)); },
       .presets = {{"gpt2-large", gpt2_shape(1280, 36, 20), "openai-community/gpt2-large"},
                   {"gpt2-medium", gpt2_shape(1024, 24, 16), "openai-community/gpt2-medium"},
                   {"gpt2", gpt2_shape(768, 12, 12), "openai-community/gpt2"},
                   {"gpt2-mini", gpt2_shape(192, 6, 6)},
                   {"gpt2-tiny", gpt2_shape(96, 2, 3)}},
       .head = "CausalLM"},
  };
  return families;
}

std::string_view usual_head(const Encoder& encoder) {
  return std::ranges::find(all_families(), encoder.model_type(), &Family::model_type)->head;
}

}  // namespace plimsoll
