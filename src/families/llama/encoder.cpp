#include <fmt/format.h>

#include "base/error.h"
#include "families/llama/llama.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

class LlamaEncoder final : public Encoder {
 public:
  explicit LlamaEncoder(const LlamaConfig& config) : config_(config) {}

  std::string_view model_type() const override { return config_.kind.model_type; }
  std::string_view class_name() const override { return config_.kind.class_name; }
  std::string_view prefix() const override { return "model"; }
  void write_config(nlohmann::json& object) const override { write_llama(config_, object); }

  ClassifierForm token_classifier(std::int64_t) const override {
    return {.name = "score", .dropout = config_.classifier_dropout, .initializer_range = config_.initializer_range};
  }
  ClassifierForm sequence_classifier() const override {
    return {.name = "score", .bias = false, .last_row = true, .initializer_range = config_.initializer_range};
  }
  // Its parameters have another prefix in `transformers`, "transformer.".
  ClassifierForm span_classifier() const override {
    throw UsageError({.what = "a decoder has no head for questions here",
                      .where = fmt::format("a model of type '{}'", config_.kind.model_type),
                      .found = "--task question-answering",
                      .allowed = "another task",
                      .remedy = "train a model of an encoder family, as roberta, for questions"});
  }

  LanguageHeadForm language_head() const override {
    return {.weight = config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
            .tied = config_.tie_word_embeddings,
            .initializer_range = config_.initializer_range};
  }

  EncoderFacts facts() const override {
    const bool slides = config_.sliding_window > 0 && config_.sliding_window < config_.max_position_embeddings;
    return {.hidden_size = config_.hidden_size,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = static_cast<std::int32_t>(std::max<std::int64_t>(config_.pad_token_id, 0)),
                      .pads = config_.pad_token_id >= 0,
                      .first_position = 0},
            .positions = slides ? config_.sliding_window : config_.max_position_embeddings,
            .limited_by = slides ? "sliding_window" : "max_position_embeddings",
            .token_types = 1,
            .image = {}};
  }

  std::vector<ParameterSpec> specs(const ModelOptions&) const override {
    const LlamaConfig& c = config_;
    std::vector<ParameterSpec> specs;
    add_spec(specs, "model.embed_tokens.weight", {c.vocab_size, c.hidden_size},
             c.pad_token_id < 0 ? Init::kNormal : Init::kNormalPaddingRow, Part::kWordEmbedding);
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const std::string layer = layer_name(i), attention = layer + "self_attn.", mlp = layer + "mlp.";
      const std::size_t first = specs.size();
      for (const LinearMap& map : maps_of(i)) {
        if (map.name == mlp + "gate_proj" && c.kind.normalises_heads) {
          add_scale(specs, attention + "q_norm", c.head_dim);
          add_scale(specs, attention + "k_norm", c.head_dim);
        }
        add_spec(specs, map.name + ".weight", {map.out, map.in}, Init::kNormal, Part::kEncoderMatrix);
        if (has_bias(map, attention, mlp)) add_spec(specs, map.name + ".bias", {map.out}, Init::kZeros);
      }
      add_scale(specs, layer + "input_layernorm", c.hidden_size);
      add_scale(specs, layer + "post_attention_layernorm", c.hidden_size);
      for (std::size_t s = first; s < specs.size(); ++s) specs[s].layer = i;
    }
    add_scale(specs, "model.norm", c.hidden_size);
    for (ParameterSpec& spec : specs) {
      spec.normal_std = c.initializer_range;
      spec.padding_row = std::max<std::int64_t>(c.pad_token_id, 0);
    }
    return specs;
  }

  std::vector<LinearMap> linear_maps() const override {
    std::vector<LinearMap> maps;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      for (LinearMap& map : maps_of(i)) maps.push_back(std::move(map));
    }
    return maps;
  }
  std::vector<PrunableUnits> prunable() const override { return {}; }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType wide_type) const override {
    std::vector<InputSpec> inputs = text_row_inputs(capacity, false, false);
    inputs.push_back({.name = std::string(input::kRotaryFrequencies),
                      .type = {wide_type, {config_.head_dim / 2}},
                      .constants = rotary_frequencies(config_.rotary, config_.head_dim)});
    return inputs;
  }

  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.text_rows; }

  Encoded encode(ModelBuilder& builder) const override {
    const LlamaConfig& c = config_;
    Graph& graph = builder.graph();
    const LayerInputs layers = text_row_context(builder);
    const AttentionContext& context = layers.context;
    const ValueId rows = layers.rows;
    ValueId hidden = builder.lookup("model.embed_tokens", builder.input(input::kInputIds),
                                    {.padding_idx = c.pad_token_id, .row_gradient = true}, rows);
    hidden = cast(graph, "model.cast", hidden, builder.encoder_dtype(), rows);
    const ValueId table = rotary_table(graph, "model.rotary_emb", builder.input(input::kPositionIds),
                                       builder.input(input::kRotaryFrequencies), rows);
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const std::string layer = layer_name(i), self = layer + "self_attn", mlp = layer + "mlp";
      ValueId normal = builder.rms_norm(layer + "input_layernorm", hidden, c.rms_norm_eps, rows);
      // Returns queries or keys: mapped, normalised head by head if the family does that, and rotated.
      const auto turned = [&](const char* map, const char* norm) {
        ValueId x = builder.dense(fmt::format("{}.{}", self, map), normal, rows);
        const std::string name = fmt::format("{}.{}", self, norm);
        if (c.kind.normalises_heads) x = builder.rms_norm(name, x, c.rms_norm_eps, rows);
        return rotary(graph, fmt::format("{}.{}_rotary", self, map), x, table, rows);
      };
      const ValueId q = turned("q_proj", "q_norm"), k = turned("k_proj", "k_norm");
      const ValueId v = builder.dense(self + ".v_proj", normal, rows);
      AttentionAttributes attributes;
      attributes.heads = c.num_attention_heads;
      attributes.key_value_heads = c.num_key_value_heads == c.num_attention_heads ? 0 : c.num_key_value_heads;
      attributes.causal = true;
      attributes.dropout_p = builder.rate(c.attention_dropout);
      attributes.site = builder.next_site();
      const ValueId seen = attention(graph, self, q, k, v, context, attributes, rows);
      hidden = add(graph, self + ".add", hidden, builder.dense(self + ".o_proj", seen, rows), rows);
      normal = builder.rms_norm(layer + "post_attention_layernorm", hidden, c.rms_norm_eps, rows);
      const ValueId gated = silu_multiply(graph, mlp + ".act_fn", builder.dense(mlp + ".gate_proj", normal, rows),
                                          builder.dense(mlp + ".up_proj", normal, rows), rows);
      hidden = add(graph, mlp + ".add", hidden, builder.dense(mlp + ".down_proj", gated, rows), rows);
    }
    return {.hidden = builder.rms_norm("model.norm", hidden, c.rms_norm_eps, rows),
            .text_rows = rows,
            .text_row_keys = context.row_keys};
  }

  std::set<std::string> layer_outputs() const override {
    std::set<std::string> names;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) names.insert(layer_name(i) + "mlp.add");
    return names;
  }

 private:
  static std::string layer_name(std::int64_t layer) { return fmt::format("model.layers.{}.", layer); }
  static void add_scale(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t width) {
    add_spec(specs, name + ".weight", {width}, Init::kOnes);
  }
  bool has_bias(const LinearMap& map, const std::string& attention, const std::string& mlp) const {
    if (map.name.starts_with(mlp)) return config_.mlp_bias;
    return map.name == attention + "o_proj" ? config_.attention_bias : config_.has_bias_of_qkv();
  }
  // Returns the maps in the order of `transformers`.
  std::vector<LinearMap> maps_of(std::int64_t i) const {
    const LlamaConfig& c = config_;
    const std::string layer = layer_name(i), attention = layer + "self_attn.", mlp = layer + "mlp.";
    const std::int64_t d = c.hidden_size, f = c.intermediate_size, queries = c.num_attention_heads * c.head_dim,
                       keys = c.num_key_value_heads * c.head_dim;
    return {{attention + "q_proj", queries, d}, {attention + "k_proj", keys, d}, {attention + "v_proj", keys, d},
            {attention + "o_proj", d, queries}, {mlp + "gate_proj", f, d},       {mlp + "up_proj", f, d},
            {mlp + "down_proj", d, f}};
  }

  LlamaConfig config_;
};

}  // namespace

std::shared_ptr<const Encoder> llama_encoder(const LlamaConfig& config) {
  return std::make_shared<LlamaEncoder>(config);
}

}  // namespace plimsoll
