#include <fmt/format.h>

#include <functional>

#include "families/layoutlmv3/layoutlmv3.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;
using Full = InputSpec::Full;

const std::string kRoot = "layoutlmv3.";

BertLayers layers_of(const LayoutLMv3Config& c) {
  BertLayers layers = bert_layers("layoutlmv3", c);
  layers.attention = {.max_position_distance = c.max_rel_pos,
                      .max_spatial_distance = c.max_rel_2d_pos,
                      .longest_sample = c.max_position_embeddings + c.image().visual_tokens()};
  return layers;
}

// Returns the tables that the config asks for.
std::vector<std::string> table_names(const LayoutLMv3Config& c) {
  std::vector<std::string> names;
  if (c.has_relative_attention_bias) names.emplace_back("rel_pos_bias");
  if (c.has_spatial_attention_bias) names.insert(names.end(), {"rel_pos_x_bias", "rel_pos_y_bias"});
  return names;
}

std::string shared_table(const std::string& name) { return fmt::format("{}encoder.{}.weight", kRoot, name); }
// Returns the name of a pruned layer's table, which has a row for each remaining head.
std::string own_table(const std::string& name, std::int64_t layer) {
  return fmt::format("{}encoder.layer.{}.attention.self.{}.weight", kRoot, layer, name);
}

std::vector<ParameterSpec> base_specs(const LayoutLMv3Config& c, const ModelOptions& options) {
  std::vector<ParameterSpec> specs;
  const std::string embeddings = kRoot + "embeddings.";
  add_spec(specs, kRoot + "cls_token", {1, 1, c.hidden_size}, Init::kZeros);
  add_spec(specs, kRoot + "pos_embed", {1, c.image().visual_tokens(), c.hidden_size}, Init::kZeros);
  add_spec(specs, embeddings + "word_embeddings.weight", {c.vocab_size, c.hidden_size}, Init::kNormalPaddingRow,
           Part::kWordEmbedding);
  add_spec(specs, embeddings + "token_type_embeddings.weight", {c.type_vocab_size, c.hidden_size}, Init::kNormal,
           Part::kEmbedding);
  add_layer_norm(specs, embeddings + "LayerNorm", c.hidden_size);
  add_spec(specs, embeddings + "position_embeddings.weight", {c.max_position_embeddings, c.hidden_size},
           Init::kNormalPaddingRow, Part::kEmbedding);
  for (const char* axis : {"x", "y"}) {
    add_spec(specs, fmt::format("{}{}_position_embeddings.weight", embeddings, axis),
             {c.max_2d_position_embeddings, c.coordinate_size}, Init::kNormal, Part::kEmbedding);
  }
  for (const char* axis : {"h", "w"}) {
    add_spec(specs, fmt::format("{}{}_position_embeddings.weight", embeddings, axis),
             {c.max_2d_position_embeddings, c.shape_size}, Init::kNormal, Part::kEmbedding);
  }
  // A convolution with stride = kernel is a linear map of patches: [D, 3, 16, 16] read as [D, 768].
  add_linear(specs, kRoot + "patch_embed.proj", c.hidden_size, c.num_channels * c.patch_size * c.patch_size);
  specs[specs.size() - 2].file_shape = {c.hidden_size, c.num_channels, c.patch_size, c.patch_size};
  add_layer_norm(specs, kRoot + "LayerNorm", c.hidden_size);
  add_layer_norm(specs, kRoot + "norm", c.hidden_size);
  add_bert_layers(specs, layers_of(c));
  const auto add_table = [&](const std::string& name, const std::string& full_name, std::int64_t heads) {
    add_spec(specs, full_name, {heads, name == "rel_pos_bias" ? c.rel_pos_bins : c.rel_2d_pos_bins}, Init::kNormal,
             Part::kAttentionTable);
    // Without the position bias the spatial ones are not added (EncoderGraph).
    specs.back().trains = options.train_relative_position_tables && c.has_relative_attention_bias;
  };
  for (const std::string& name : table_names(c)) {
    if (c.pruned_layers.empty()) add_table(name, shared_table(name), c.num_attention_heads);
    for (std::int64_t i = 0; i < std::ssize(c.pruned_layers); ++i) {
      add_table(name, own_table(name, i), c.pruned_layers[static_cast<std::size_t>(i)].attention_heads);
      specs.back().layer = i;
    }
  }
  initialise_as(c, specs);
  return specs;
}

// Builds the encoder for one capacity.
class EncoderGraph {
 public:
  EncoderGraph(const LayoutLMv3Config& config, ModelBuilder& builder)
      : config_(config),
        builder_(builder),
        graph_(builder.graph()),
        row_count_(builder.input(input::kRows)),
        text_count_(builder.input(input::kTextRows)),
        row_keys_(builder.input(input::kRowKeys)) {
    context_ = {.sample_offsets = builder.input(input::kSampleOffsets),
                .key_mask = builder.input(input::kKeyMask),
                .row_keys = row_keys_,
                .dropout_key = builder.input(input::kDropoutKey),
                .relative_coordinates = builder.input(input::kRelativeCoordinates)};
    if (config.pruned_layers.empty()) set_tables(context_, shared_table);
    for (std::int64_t i = 0; i < std::ssize(config.pruned_layers); ++i) {
      own_contexts_.push_back(context_);
      set_tables(own_contexts_.back(), [i](const std::string& name) { return own_table(name, i); });
    }
  }

  Encoded build() {
    const ValueId source = builder_.input(input::kRowSource), text_index = builder_.input(input::kTextRowIndex);
    const ValueId packed = add_single(graph_, {.op = Op::kPackRows,
                                               .name = kRoot + "concat",
                                               .inputs = {text_embedding(), visual_embedding(), source, text_index,
                                                          builder_.input(input::kVisualRowIndex)},
                                               .row_count = row_count_});
    ValueId hidden = builder_.norm(kRoot + "LayerNorm", packed, config_.layer_norm_eps, row_count_);
    hidden = builder_.drop(kRoot + "dropout", hidden, config_.hidden_dropout_prob, row_keys_, row_count_);
    hidden = cast(graph_, kRoot + "encoder.cast", hidden, builder_.encoder_dtype(), row_count_);
    hidden = append_bert_layers(builder_, layers_of(config_), hidden,
                                {.context = context_, .rows = row_count_, .own_contexts = own_contexts_});
    return {.hidden = hidden,
            .row_source = source,
            .text_row_index = text_index,
            .text_rows = text_count_,
            .text_row_keys = builder_.input(input::kTextRowKeys)};
  }

 private:
  // As in `transformers`: the spatial bias is added only beside the position bias.
  void set_tables(AttentionContext& context, const std::function<std::string(const std::string&)>& full_name) const {
    if (!config_.has_relative_attention_bias) return;
    context.position_table = builder_.parameter(full_name("rel_pos_bias"));
    if (!config_.has_spatial_attention_bias) return;
    context.x_table = builder_.parameter(full_name("rel_pos_x_bias"));
    context.y_table = builder_.parameter(full_name("rel_pos_y_bias"));
  }

  ValueId text_embedding() {
    const std::string prefix = kRoot + "embeddings.";
    const auto lookup = [&](const char* table, std::string_view ids, EmbeddingAttributes attributes) {
      return builder_.lookup(prefix + table, builder_.input(ids), attributes, text_count_);
    };
    ValueId sum =
        lookup("word_embeddings", input::kInputIds, {.padding_idx = config_.pad_token_id, .row_gradient = true});
    sum = add(graph_, prefix + "add_token_type", sum, lookup("token_type_embeddings", input::kTokenTypeIds, {}),
              text_count_);
    sum = add(graph_, prefix + "add_position", sum,
              lookup("position_embeddings", input::kPositionIds, {.padding_idx = config_.pad_token_id}), text_count_);
    const auto table = [&](const char* axis) {
      return builder_.parameter(fmt::format("{}{}_position_embeddings.weight", prefix, axis));
    };
    const ValueId spatial =
        spatial_embedding(graph_, prefix + "spatial", {table("x"), table("y"), table("h"), table("w")},
                          builder_.input(input::kBbox), false, text_count_);
    sum = add(graph_, prefix + "add_spatial", sum, spatial, text_count_);
    sum = builder_.norm(prefix + "LayerNorm", sum, config_.layer_norm_eps, text_count_);
    return builder_.drop(prefix + "dropout", sum, config_.hidden_dropout_prob, builder_.input(input::kTextRowKeys),
                         text_count_);
  }

  ValueId visual_embedding() {
    const ValueId patch_count = builder_.input(input::kPatchRows), visual_count = builder_.input(input::kVisualRows);
    const ValueId patches = add_single(graph_, {.op = Op::kPatchify,
                                                .name = kRoot + "patch_embed.patchify",
                                                .attributes = PatchAttributes{config_.patch_size},
                                                .inputs = {builder_.input(input::kPixelValues)},
                                                .row_count = patch_count});
    const ValueId projected = builder_.dense(kRoot + "patch_embed.proj", patches, patch_count);
    const ValueId embedded = add_single(graph_, {.op = Op::kVisualEmbedding,
                                                 .name = kRoot + "visual_embedding",
                                                 .inputs = {projected, builder_.parameter(kRoot + "cls_token"),
                                                            builder_.parameter(kRoot + "pos_embed")},
                                                 .row_count = visual_count});
    constexpr double kVisualNormEps = 1e-6;  // fixed in `transformers`, not the config's
    return builder_.norm(kRoot + "norm", embedded, kVisualNormEps, visual_count);
  }

  const LayoutLMv3Config& config_;
  ModelBuilder& builder_;
  Graph& graph_;
  const ValueId row_count_, text_count_, row_keys_;
  AttentionContext context_{};
  std::vector<AttentionContext> own_contexts_{};  // of pruned layers
};

class LayoutLMv3Encoder final : public Encoder {
 public:
  explicit LayoutLMv3Encoder(const LayoutLMv3Config& config) : config_(config) {}

  std::string_view model_type() const override { return "layoutlmv3"; }
  std::string_view class_name() const override { return "LayoutLMv3"; }
  std::string_view prefix() const override { return "layoutlmv3"; }
  void write_config(nlohmann::json& object) const override { write_layoutlmv3(config_, object); }
  // One linear map below ten labels, an MLP from ten on.
  ClassifierForm token_classifier(std::int64_t labels) const override {
    return {.dropout = config_.hidden_dropout_prob,
            .mlp = labels >= 10,
            .inner_dropout = config_.head_dropout(),
            .initializer_range = config_.initializer_range};
  }
  ClassifierForm sequence_classifier() const override {
    return {.mlp = true, .inner_dropout = config_.head_dropout(), .initializer_range = config_.initializer_range};
  }
  ClassifierForm span_classifier() const override {
    ClassifierForm form = sequence_classifier();
    form.name = "qa_outputs";
    return form;
  }
  EncoderFacts facts() const override {
    return {.hidden_size = config_.hidden_size,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = static_cast<std::int32_t>(config_.pad_token_id),
                      .first_position = static_cast<std::int32_t>(config_.pad_token_id) + 1},
            .positions = config_.max_position_embeddings,
            .coordinates = config_.max_2d_position_embeddings,
            .token_types = config_.type_vocab_size,
            .image = config_.image()};
  }
  std::vector<ParameterSpec> specs(const ModelOptions& options) const override { return base_specs(config_, options); }
  std::vector<LinearMap> linear_maps() const override { return bert_linear_maps(layers_of(config_)); }
  std::vector<PrunableUnits> prunable() const override {
    std::vector<PrunableUnits> all = bert_prunable(layers_of(config_));
    for (PrunableUnits& units : all) {
      if (units.kind != PrunableUnits::Kind::kHeads) continue;
      for (const std::string& name : table_names(config_)) {
        const std::string own = own_table(name, units.layer);
        units.tables.push_back({.shared = config_.pruned_layers.empty() ? shared_table(name) : own, .own = own});
      }
    }
    return all;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType wide_type) const override {
    const std::int64_t samples = capacity.samples, text = capacity.text_rows, rows = this->rows(capacity),
                       visual = samples * config_.image().visual_tokens(), side = config_.input_size;
    const auto ints = [](std::string_view name, Shape shape, Full full = Full::kZeros, std::int64_t count = 0) {
      return InputSpec{.name = std::string(name), .type = {DType::kI32, shape}, .full = full, .count = count};
    };
    return {
        ints(input::kInputIds, {text}),
        ints(input::kBbox, {text, 4}),
        ints(input::kPositionIds, {text}),
        ints(input::kTokenTypeIds, {text}),
        {.name = std::string(input::kPixelValues), .type = {wide_type, {samples, config_.num_channels, side, side}}},
        ints(input::kRowSource, {rows}),
        ints(input::kTextRowIndex, {text}),
        ints(input::kVisualRowIndex, {visual}),
        ints(input::kRowKeys, {rows, 2}),
        ints(input::kTextRowKeys, {text, 2}),
        ints(input::kSampleOffsets, {samples + 1}, Full::kOffsets, rows),
        ints(input::kRelativeCoordinates, {rows, 3}),
        ints(input::kKeyMask, {rows}, Full::kOnes),
        ints(input::kTextRows, {1}, Full::kCount, text),
        ints(input::kVisualRows, {1}, Full::kCount, visual),
        ints(input::kPatchRows, {1}, Full::kCount, samples * config_.image().patches()),
        ints(input::kRows, {1}, Full::kCount, rows)};
  }

  std::int64_t rows(const ModelCapacity& capacity) const override {
    return capacity.text_rows + capacity.samples * config_.image().visual_tokens();
  }
  Encoded encode(ModelBuilder& builder) const override { return EncoderGraph(config_, builder).build(); }
  std::set<std::string> layer_outputs() const override { return bert_layer_outputs(layers_of(config_)); }

 private:
  LayoutLMv3Config config_;
};

}  // namespace

std::shared_ptr<const Encoder> layoutlmv3_encoder(const LayoutLMv3Config& config) {
  return std::make_shared<LayoutLMv3Encoder>(config);
}

}  // namespace plimsoll
