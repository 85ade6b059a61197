#include <fmt/format.h>

#include "families/bert/bert.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

class BertEncoder final : public Encoder {
 public:
  explicit BertEncoder(const BertConfig& config)
      : config_(config),
        embeddings_(fmt::format("{}.embeddings.", config.kind.prefix)),
        layers_(bert_layers(config.kind.prefix, config)) {}

  std::string_view model_type() const override { return config_.kind.model_type; }
  std::string_view class_name() const override { return config_.kind.class_name; }
  std::string_view prefix() const override { return config_.kind.prefix; }
  void write_config(nlohmann::json& object) const override { write_bert(config_, object); }

  ClassifierForm token_classifier(std::int64_t) const override {
    return {.dropout = config_.head_dropout(), .initializer_range = config_.initializer_range};
  }
  // BERT has a pooler; RoBERTa's head has a dense layer of its own.
  ClassifierForm sequence_classifier() const override {
    if (config_.kind.has_pooler) {
      return {.pooler = fmt::format("{}.pooler.dense", config_.kind.prefix),
              .dropout = config_.head_dropout(),
              .initializer_range = config_.initializer_range};
    }
    return {.mlp = true, .inner_dropout = config_.head_dropout(), .initializer_range = config_.initializer_range};
  }

  ClassifierForm span_classifier() const override {
    return {.name = "qa_outputs", .initializer_range = config_.initializer_range};
  }

  EncoderFacts facts() const override {
    const auto pad = static_cast<std::int32_t>(config_.pad_token_id);
    return {.hidden_size = config_.hidden_size,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = pad,
                      .first_position = config_.kind.positions_after_padding ? pad + 1 : 0,
                      .types_pairs = config_.type_vocab_size > 1 && !config_.kind.positions_after_padding},
            .positions = config_.max_position_embeddings,
            .token_types = config_.type_vocab_size,
            .image = {}};
  }

  std::vector<ParameterSpec> specs(const ModelOptions&) const override {
    const BertConfig& c = config_;
    std::vector<ParameterSpec> specs;
    add_spec(specs, embeddings_ + "word_embeddings.weight", {c.vocab_size, c.hidden_size}, Init::kNormalPaddingRow,
             Part::kWordEmbedding);
    add_spec(specs, embeddings_ + "position_embeddings.weight", {c.max_position_embeddings, c.hidden_size},
             c.kind.positions_after_padding ? Init::kNormalPaddingRow : Init::kNormal, Part::kEmbedding);
    add_spec(specs, embeddings_ + "token_type_embeddings.weight", {c.type_vocab_size, c.hidden_size}, Init::kNormal,
             Part::kEmbedding);
    add_layer_norm(specs, embeddings_ + "LayerNorm", c.hidden_size);
    add_bert_layers(specs, layers_);
    initialise_as(c, specs);
    return specs;
  }

  std::vector<LinearMap> linear_maps() const override { return bert_linear_maps(layers_); }
  std::vector<PrunableUnits> prunable() const override { return bert_prunable(layers_); }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType) const override {
    return text_row_inputs(capacity, false);
  }

  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.text_rows; }

  Encoded encode(ModelBuilder& builder) const override {
    Graph& graph = builder.graph();
    const ValueId rows = builder.input(input::kRows), row_keys = builder.input(input::kRowKeys);
    const auto lookup = [&](const char* table, std::string_view ids, EmbeddingAttributes attributes) {
      return builder.lookup(embeddings_ + table, builder.input(ids), attributes, rows);
    };
    ValueId hidden =
        lookup("word_embeddings", input::kInputIds, {.padding_idx = config_.pad_token_id, .row_gradient = true});
    hidden = add(graph, embeddings_ + "add_token_type", hidden,
                 lookup("token_type_embeddings", input::kTokenTypeIds, {}), rows);
    EmbeddingAttributes positions;
    if (config_.kind.positions_after_padding) positions.padding_idx = config_.pad_token_id;
    hidden = add(graph, embeddings_ + "add_position", hidden,
                 lookup("position_embeddings", input::kPositionIds, positions), rows);
    hidden = builder.norm(embeddings_ + "LayerNorm", hidden, config_.layer_norm_eps, rows);
    hidden = builder.drop(embeddings_ + "dropout", hidden, config_.hidden_dropout_prob, row_keys, rows);
    hidden = cast(graph, embeddings_ + "cast", hidden, builder.encoder_dtype(), rows);
    return {.hidden = append_bert_layers(builder, layers_, hidden, text_row_context(builder)),
            .text_rows = rows,
            .text_row_keys = row_keys};
  }

  std::set<std::string> layer_outputs() const override { return bert_layer_outputs(layers_); }

 private:
  BertConfig config_;
  std::string embeddings_;
  BertLayers layers_;
};

}  // namespace

std::shared_ptr<const Encoder> bert_encoder(const BertConfig& config) { return std::make_shared<BertEncoder>(config); }

}  // namespace plimsoll
