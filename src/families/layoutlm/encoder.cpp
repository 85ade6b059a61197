#include <fmt/format.h>

#include "families/layoutlm/layoutlm.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

const std::string kEmbeddings = "layoutlm.embeddings.";

class LayoutLMEncoder final : public Encoder {
 public:
  explicit LayoutLMEncoder(const LayoutLMConfig& config) : config_(config), layers_(bert_layers("layoutlm", config)) {}

  std::string_view model_type() const override { return "layoutlm"; }
  std::string_view class_name() const override { return "LayoutLM"; }
  std::string_view prefix() const override { return "layoutlm"; }
  void write_config(nlohmann::json& object) const override { write_layoutlm(config_, object); }

  ClassifierForm token_classifier(std::int64_t) const override {
    return {.dropout = config_.hidden_dropout_prob, .initializer_range = config_.initializer_range};
  }
  ClassifierForm sequence_classifier() const override {
    return {.pooler = "layoutlm.pooler.dense",
            .dropout = config_.hidden_dropout_prob,
            .initializer_range = config_.initializer_range};
  }
  ClassifierForm span_classifier() const override {
    return {.name = "qa_outputs", .initializer_range = config_.initializer_range};
  }

  EncoderFacts facts() const override {
    return {.hidden_size = config_.hidden_size,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = static_cast<std::int32_t>(config_.pad_token_id),
                      .first_position = 0,
                      .types_pairs = config_.type_vocab_size > 1,
                      .separator_box = 1000},
            .positions = config_.max_position_embeddings,
            .coordinates = config_.max_2d_position_embeddings,
            .token_types = config_.type_vocab_size,
            .image = {}};
  }

  std::vector<ParameterSpec> specs(const ModelOptions&) const override {
    const LayoutLMConfig& c = config_;
    std::vector<ParameterSpec> specs;
    add_spec(specs, kEmbeddings + "word_embeddings.weight", {c.vocab_size, c.hidden_size}, Init::kNormalPaddingRow,
             Part::kWordEmbedding);
    const auto add_table = [&](const std::string& name, std::int64_t rows) {
      add_spec(specs, kEmbeddings + name + ".weight", {rows, c.hidden_size}, Init::kNormal, Part::kEmbedding);
    };
    add_table("position_embeddings", c.max_position_embeddings);
    for (const char* axis : {"x", "y", "h", "w"}) {
      add_table(fmt::format("{}_position_embeddings", axis), c.max_2d_position_embeddings);
    }
    add_table("token_type_embeddings", c.type_vocab_size);
    add_layer_norm(specs, kEmbeddings + "LayerNorm", c.hidden_size);
    add_bert_layers(specs, layers_);
    initialise_as(c, specs);
    return specs;
  }

  std::vector<LinearMap> linear_maps() const override { return bert_linear_maps(layers_); }
  std::vector<PrunableUnits> prunable() const override { return bert_prunable(layers_); }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType) const override {
    return text_row_inputs(capacity, true);
  }

  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.text_rows; }

  Encoded encode(ModelBuilder& builder) const override {
    Graph& graph = builder.graph();
    const ValueId rows = builder.input(input::kRows), row_keys = builder.input(input::kRowKeys);
    ValueId hidden = embed(builder, rows);
    hidden = builder.norm(kEmbeddings + "LayerNorm", hidden, config_.layer_norm_eps, rows);
    hidden = builder.drop(kEmbeddings + "dropout", hidden, config_.hidden_dropout_prob, row_keys, rows);
    hidden = cast(graph, kEmbeddings + "cast", hidden, builder.encoder_dtype(), rows);
    return {.hidden = append_bert_layers(builder, layers_, hidden, text_row_context(builder)),
            .text_rows = rows,
            .text_row_keys = row_keys};
  }

  std::set<std::string> layer_outputs() const override { return bert_layer_outputs(layers_); }

 private:
  // Returns the sum of all tables' rows.
  ValueId embed(ModelBuilder& builder, ValueId rows) const {
    Graph& graph = builder.graph();
    const auto lookup = [&](const char* table, std::string_view ids, EmbeddingAttributes attributes) {
      return builder.lookup(kEmbeddings + table, builder.input(ids), attributes, rows);
    };
    const auto table = [&](const char* axis) {
      return builder.parameter(fmt::format("{}{}_position_embeddings.weight", kEmbeddings, axis));
    };
    ValueId sum =
        lookup("word_embeddings", input::kInputIds, {.padding_idx = config_.pad_token_id, .row_gradient = true});
    sum = add(graph, kEmbeddings + "add_position", sum, lookup("position_embeddings", input::kPositionIds, {}), rows);
    const ValueId spatial =
        spatial_embedding(graph, kEmbeddings + "spatial", {table("x"), table("y"), table("h"), table("w")},
                          builder.input(input::kBbox), true, rows);
    sum = add(graph, kEmbeddings + "add_spatial", sum, spatial, rows);
    return add(graph, kEmbeddings + "add_token_type", sum, lookup("token_type_embeddings", input::kTokenTypeIds, {}),
               rows);
  }

  LayoutLMConfig config_;
  BertLayers layers_;
};

}  // namespace

std::shared_ptr<const Encoder> layoutlm_encoder(const LayoutLMConfig& config) {
  return std::make_shared<LayoutLMEncoder>(config);
}

}  // namespace plimsoll
