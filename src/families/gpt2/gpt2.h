// GPT-2 (Radford et al. 2019): a decoder with learned positions. A layer is attention, in which a row sees no later one
// of its sample, and a feed-forward network with GELU by tanh, each with LayerNorm before it and a residual sum after
// it. One map computes queries, keys and values, and files have the layers' matrices as [in, out].
//
// Letters: B samples, N packed rows, all of text, D columns, F columns of the feed-forward network.
//
//   const std::shared_ptr<const Encoder> encoder = gpt2_encoder(read_gpt2(ConfigReader(object, "model/config.json")));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "families/parts/config_reader.h"
#include "model/definition.h"

namespace plimsoll {

// The values of config.json, by their names there.
struct Gpt2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;  // D
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_inner = 0;  // F; 0: 4 D
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double classifier_dropout = 0.1;  // for a head that labels tokens
  bool tie_word_embeddings = true;  // the head of a language model is the word embedding
  std::int64_t pad_token_id = -1;   // -1: none

  std::int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
};

// Throws DataError naming the key for a value that is missing, makes no sense or is not supported.
Gpt2Config read_gpt2(const ConfigReader& reader);
void write_gpt2(const Gpt2Config& config, nlohmann::json& object);

std::shared_ptr<const Encoder> gpt2_encoder(const Gpt2Config& config);

}  // namespace plimsoll
