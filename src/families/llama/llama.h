// Llama (Touvron et al. 2023) and the decoders that are built like it: Mistral, Qwen2, with biases of queries, keys and
// values, and Qwen3, which normalises the heads of queries and keys. A layer is attention, in which a row sees no later
// one of its sample, and a feed-forward network with a gate (Shazeer 2020), each with RMSNorm before it and a residual
// sum after it; positions rotate queries and keys (Su et al. 2021).
//
// Letters: B samples, N packed rows, all of text, D columns, E columns of a head.
//
//   const LlamaConfig config = read_llama(ConfigReader(object, "model/config.json"), llama_kind());
//   const std::shared_ptr<const Encoder> encoder = llama_encoder(config);
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "families/parts/config_reader.h"
#include "model/definition.h"

namespace plimsoll {

struct LlamaKind {
  std::string_view model_type, class_name;
  std::int64_t vocab_size = 0, intermediate_size = 0, max_position_embeddings = 0;  // the defaults of `transformers`
  std::int64_t num_key_value_heads = 0;                                             // 0: as many as query heads
  std::int64_t head_dim = 0;          // 0: hidden_size / num_attention_heads
  bool has_bias_of_qkv = false;       // always; otherwise as `attention_bias` says, of all four maps
  bool reads_attention_bias = false;  // and `mlp_bias` of Llama
  bool normalises_heads = false;      // of queries and keys, after their maps
  enum class Window : std::uint8_t { kNone, kAlways, kIfUsed };
  Window window = Window::kNone;  // how `sliding_window` is read: kIfUsed asks `use_sliding_window` first
};
LlamaKind llama_kind();
LlamaKind mistral_kind();
LlamaKind qwen2_kind();
LlamaKind qwen3_kind();

// How angles grow with positions (`rope_parameters`; before transformers 5, `rope_theta` and `rope_scaling`).
struct RotaryForm {
  enum class Type : std::uint8_t { kDefault, kLinear, kLlama3 };
  Type type = Type::kDefault;
  double theta = 10000;
  double factor = 1;
  // kLlama3 keeps wavelengths shorter than (original length / high_freq_factor), stretches those longer than (original
  // length / low_freq_factor) by `factor`, and those in between by less.
  double low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;

  friend bool operator==(const RotaryForm&, const RotaryForm&) = default;
};

struct LlamaConfig {
  LlamaKind kind;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 4096;        // D
  std::int64_t intermediate_size = 0;     // F
  std::int64_t num_hidden_layers = 32;    // L
  std::int64_t num_attention_heads = 32;  // H
  std::int64_t num_key_value_heads = 32;  // each serves H / (this number) neighbouring heads
  std::int64_t head_dim = 0;              // E
  std::int64_t max_position_embeddings = 0;
  // A row sees itself and the rows before it, this many in all; 0: all rows. Texts up to that length, which are the
  // longest here, are computed as without a window.
  std::int64_t sliding_window = 0;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0;
  double classifier_dropout = 0.1;  // of a head
  bool attention_bias = false, mlp_bias = false;
  bool tie_word_embeddings = false;  // the head of a language model is the word embedding
  std::int64_t pad_token_id = -1;    // -1: none
  RotaryForm rotary;

  bool has_bias_of_qkv() const { return kind.has_bias_of_qkv || attention_bias; }
};

// Throws DataError naming the key for a value that is missing, makes no sense or exceeds what kernels support.
LlamaConfig read_llama(const ConfigReader& reader, const LlamaKind& kind);
void write_llama(const LlamaConfig& config, nlohmann::json& object);

// Returns the radians per position for each of the E / 2 pairs of columns, computed in floats as in `transformers`.
std::vector<float> rotary_frequencies(const RotaryForm& form, std::int64_t head_dim);

std::shared_ptr<const Encoder> llama_encoder(const LlamaConfig& config);

}  // namespace plimsoll
