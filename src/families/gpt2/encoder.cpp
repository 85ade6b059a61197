#include <fmt/format.h>

#include <cmath>

#include "families/gpt2/gpt2.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

constexpr const char *kWords = "transformer.wte", *kPositions = "transformer.wpe";

class Gpt2Encoder final : public Encoder {
 public:
  explicit Gpt2Encoder(Gpt2Config config) : config_(std::move(config)) {}

  std::string_view model_type() const override { return "gpt2"; }
  std::string_view class_name() const override { return "GPT2"; }
  std::string_view prefix() const override { return "transformer"; }
  std::string model_class(std::string_view head) const override {
    return head == "CausalLM" ? std::string("GPT2LMHeadModel") : Encoder::model_class(head);
  }
  std::string_view layers_key() const override { return "n_layer"; }
  void write_config(nlohmann::json& object) const override { write_gpt2(config_, object); }

  ClassifierForm token_classifier(std::int64_t) const override {
    return {.dropout = config_.classifier_dropout, .initializer_range = config_.initializer_range};
  }
  ClassifierForm sequence_classifier() const override {
    return {.name = "score", .bias = false, .last_row = true, .initializer_range = config_.initializer_range};
  }
  ClassifierForm span_classifier() const override {
    return {.name = "qa_outputs", .initializer_range = config_.initializer_range};
  }
  LanguageHeadForm language_head() const override {
    return {.weight = config_.tie_word_embeddings ? std::string(kWords) + ".weight" : "lm_head.weight",
            .tied = config_.tie_word_embeddings,
            .initializer_range = config_.initializer_range};
  }

  EncoderFacts facts() const override {
    return {.hidden_size = config_.n_embd,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = static_cast<std::int32_t>(std::max<std::int64_t>(config_.pad_token_id, 0)),
                      .pads = config_.pad_token_id >= 0,
                      .first_position = 0},
            .positions = config_.n_positions,
            .limited_by = "n_positions",
            .token_types = 1,
            .image = {}};
  }

  std::vector<ParameterSpec> specs(const ModelOptions&) const override {
    const Gpt2Config& c = config_;
    std::vector<ParameterSpec> specs;
    add_spec(specs, std::string(kWords) + ".weight", {c.vocab_size, c.n_embd}, Init::kNormal, Part::kWordEmbedding);
    add_spec(specs, std::string(kPositions) + ".weight", {c.n_positions, c.n_embd}, Init::kNormal, Part::kEmbedding);
    for (ParameterSpec& spec : specs) spec.normal_std = c.initializer_range;
    for (std::int64_t i = 0; i < c.n_layer; ++i) {
      const std::string layer = layer_name(i);
      const std::size_t first = specs.size();
      add_layer_norm(specs, layer + "ln_1", c.n_embd);
      for (const LinearMap& map : maps_of(i)) {
        if (map.name == layer + "mlp.c_fc") add_layer_norm(specs, layer + "ln_2", c.n_embd);
        add_linear(specs, map.name, map.out, map.in, Part::kEncoderMatrix);
        ParameterSpec& weight = specs[specs.size() - 2];
        weight.transposed = true;
        weight.file_shape = {map.in, map.out};
        // Maps whose output is added to the residual stream, which is 2 n_layer times, begin with smaller weights
        // (Radford et al. 2019, 2.3).
        const double share = map.name.ends_with("c_proj") ? std::sqrt(2 * static_cast<double>(c.n_layer)) : 1;
        weight.normal_std = c.initializer_range / share;
      }
      for (std::size_t s = first; s < specs.size(); ++s) specs[s].layer = i;
    }
    add_layer_norm(specs, "transformer.ln_f", c.n_embd);
    return specs;
  }

  std::vector<LinearMap> linear_maps() const override {
    std::vector<LinearMap> maps;
    for (std::int64_t i = 0; i < config_.n_layer; ++i) {
      for (LinearMap& map : maps_of(i)) maps.push_back(std::move(map));
    }
    return maps;
  }
  std::vector<PrunableUnits> prunable() const override { return {}; }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType) const override {
    return text_row_inputs(capacity, false, false);
  }

  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.text_rows; }

  Encoded encode(ModelBuilder& builder) const override {
    const Gpt2Config& c = config_;
    Graph& graph = builder.graph();
    const LayerInputs layers = text_row_context(builder);
    const ValueId rows = layers.rows, keys = layers.context.row_keys;
    ValueId hidden = builder.lookup(kWords, builder.input(input::kInputIds), {.row_gradient = true}, rows);
    hidden = cast(graph, std::string(kWords) + ".cast", hidden, builder.wide_dtype(), rows);
    hidden = add(graph, "transformer.add", hidden,
                 builder.lookup(kPositions, builder.input(input::kPositionIds), {}, rows), rows);
    hidden = builder.drop("transformer.drop", hidden, c.embd_pdrop, keys, rows);
    hidden = cast(graph, "transformer.cast", hidden, builder.encoder_dtype(), rows);
    // Returns x + dropout(W y + b).
    const auto residual = [&](const std::string& name, const char* map, ValueId y, ValueId x) {
      y = builder.dense(fmt::format("{}.{}", name, map), y, rows);
      return add(graph, name + ".add", x, builder.drop(name + ".dropout", y, c.resid_pdrop, keys, rows), rows);
    };
    for (std::int64_t i = 0; i < c.n_layer; ++i) {
      const std::string layer = layer_name(i), self = layer + "attn", mlp = layer + "mlp";
      const ValueId seen =
          attend(builder, self, builder.norm(layer + "ln_1", hidden, c.layer_norm_epsilon, rows), layers);
      hidden = residual(self, "c_proj", seen, hidden);
      const ValueId normal = builder.norm(layer + "ln_2", hidden, c.layer_norm_epsilon, rows);
      const ValueId active =
          add_single(graph, {.op = Op::kGelu,
                             .name = mlp + ".act",
                             .attributes = GeluAttributes{.by_tanh = c.activation_function != "gelu"},
                             .inputs = {builder.dense(mlp + ".c_fc", normal, rows)},
                             .row_count = rows});
      hidden = residual(mlp, "c_proj", active, hidden);
    }
    return {.hidden = builder.norm("transformer.ln_f", hidden, c.layer_norm_epsilon, rows),
            .text_rows = rows,
            .text_row_keys = keys};
  }

  std::set<std::string> layer_outputs() const override {
    std::set<std::string> names;
    for (std::int64_t i = 0; i < config_.n_layer; ++i) names.insert(layer_name(i) + "mlp.add");
    return names;
  }

 private:
  static std::string layer_name(std::int64_t layer) { return fmt::format("transformer.h.{}.", layer); }

  // Returns the maps in the order of `transformers`.
  std::vector<LinearMap> maps_of(std::int64_t i) const {
    const std::string layer = layer_name(i);
    const std::int64_t d = config_.n_embd, f = config_.inner();
    return {{layer + "attn.c_attn", 3 * d, d},
            {layer + "attn.c_proj", d, d},
            {layer + "mlp.c_fc", f, d},
            {layer + "mlp.c_proj", d, f}};
  }

  // The map's columns are those of queries, then of keys, then of values.
  ValueId attend(ModelBuilder& builder, const std::string& self, ValueId x, const LayerInputs& layers) const {
    Graph& graph = builder.graph();
    const std::int64_t d = config_.n_embd;
    const ValueId all = builder.dense(self + ".c_attn", x, layers.rows);
    const auto [q, others] =
        split_heads(graph, self + ".query", all, {.first_size = d, .second_size = 2 * d}, layers.rows);
    const auto [k, v] =
        split_heads(graph, self + ".key_value", others, {.first_size = d, .second_size = d}, layers.rows);
    AttentionAttributes attributes;
    attributes.heads = config_.n_head;
    attributes.causal = true;
    attributes.dropout_p = builder.rate(config_.attn_pdrop);
    attributes.site = builder.next_site();
    return attention(graph, self, q, k, v, layers.context, attributes, layers.rows);
  }

  Gpt2Config config_;
};

}  // namespace

std::shared_ptr<const Encoder> gpt2_encoder(const Gpt2Config& config) { return std::make_shared<Gpt2Encoder>(config); }

}  // namespace plimsoll
