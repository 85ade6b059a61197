#include "model/layoutlmv3.h"

#include <fmt/format.h>

#include "graph/build.h"
#include "model/builder.h"
#include "model/token_head.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;
using Full = InputSpec::Full;

const std::string kRoot = "layoutlmv3.";

std::string layer_prefix(std::int64_t layer) { return fmt::format("{}encoder.layer.{}.", kRoot, layer); }

std::vector<ParameterSpec> base_specs(const LayoutLMv3Config& c, const ModelOptions& options) {
  std::vector<ParameterSpec> specs;
  const std::string embeddings = kRoot + "embeddings.";
  add_spec(specs, kRoot + "cls_token", {1, 1, c.hidden_size}, Init::kZeros);
  add_spec(specs, kRoot + "pos_embed", {1, c.visual_tokens(), c.hidden_size}, Init::kZeros);
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
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    for (const char* part : {"query", "key", "value"}) {
      add_linear(specs, layer + "attention.self." + part, c.hidden_size, c.hidden_size, Part::kEncoderMatrix);
    }
    add_linear(specs, layer + "attention.output.dense", c.hidden_size, c.hidden_size, Part::kEncoderMatrix);
    add_layer_norm(specs, layer + "attention.output.LayerNorm", c.hidden_size);
    add_linear(specs, layer + "intermediate.dense", c.intermediate_size, c.hidden_size, Part::kEncoderMatrix);
    add_linear(specs, layer + "output.dense", c.hidden_size, c.intermediate_size, Part::kEncoderMatrix);
    add_layer_norm(specs, layer + "output.LayerNorm", c.hidden_size);
  }
  const auto add_table = [&](const char* name, std::int64_t bins) {
    add_spec(specs, fmt::format("{}encoder.{}.weight", kRoot, name), {c.num_attention_heads, bins}, Init::kNormal,
             Part::kAttentionTable);
    specs.back().trains = options.train_relative_position_tables;
  };
  if (c.has_relative_attention_bias) add_table("rel_pos_bias", c.rel_pos_bins);
  if (c.has_spatial_attention_bias) {
    add_table("rel_pos_x_bias", c.rel_2d_pos_bins);
    add_table("rel_pos_y_bias", c.rel_2d_pos_bins);
  }
  for (ParameterSpec& spec : specs) {
    spec.normal_std = c.initializer_range;
    spec.padding_row = c.pad_token_id;
  }
  return specs;
}

// Builds the encoder room by room.
class EncoderGraph {
 public:
  EncoderGraph(const LayoutLMv3Config& config, ModelBuilder& builder)
      : config_(config),
        builder_(builder),
        graph_(builder.graph()),
        row_count_(builder.input("rows")),
        text_count_(builder.input("text_rows")),
        row_keys_(builder.input("row_keys")) {
    context_ = {.sample_offsets = builder.input("sample_offsets"),
                .relative_coordinates = builder.input("relative_coordinates"),
                .key_mask = builder.input("key_mask"),
                .position_table = bias_table("rel_pos_bias", config.rel_pos_bins),
                .x_table = bias_table("rel_pos_x_bias", config.rel_2d_pos_bins),
                .y_table = bias_table("rel_pos_y_bias", config.rel_2d_pos_bins),
                .row_keys = row_keys_,
                .dropout_key = builder.input(kDropoutKeyInput)};
  }

  Encoded build() {
    const ValueId source = builder_.input("row_source"), text_index = builder_.input("text_row_index");
    const ValueId packed = add_single(graph_, {.op = Op::kPackRows,
                                               .name = kRoot + "concat",
                                               .inputs = {text_embedding(), visual_embedding(), source, text_index,
                                                          builder_.input("visual_row_index")},
                                               .row_count = row_count_});
    ValueId hidden = builder_.norm(kRoot + "LayerNorm", packed, config_.layer_norm_eps, row_count_);
    hidden = builder_.drop(kRoot + "dropout", hidden, config_.hidden_dropout_prob, row_keys_, row_count_);
    hidden = cast(graph_, kRoot + "encoder.cast", hidden, builder_.encoder_dtype(), row_count_);
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) hidden = layer(i, hidden);
    return {.hidden = hidden,
            .row_source = source,
            .text_row_index = text_index,
            .text_rows = text_count_,
            .text_row_keys = builder_.input("text_row_keys")};
  }

 private:
  // A model without these tables still hands the kernel one, which it then ignores.
  ValueId bias_table(const std::string& name, std::int64_t bins) {
    const std::string full = kRoot + "encoder." + name + ".weight";
    if (builder_.has_parameter(full)) return builder_.parameter(full);
    return graph_.add_parameter("unused." + name, {builder_.wide_dtype(), {config_.num_attention_heads, bins}});
  }

  ValueId text_embedding() {
    const std::string prefix = kRoot + "embeddings.";
    const auto lookup = [&](const char* table, const char* ids, EmbeddingAttributes attributes) {
      return builder_.lookup(prefix + table, builder_.input(ids), attributes, text_count_);
    };
    ValueId sum = lookup("word_embeddings", "input_ids", {.padding_idx = config_.pad_token_id, .row_gradient = true});
    sum =
        add(graph_, prefix + "add_token_type", sum, lookup("token_type_embeddings", "token_type_ids", {}), text_count_);
    sum = add(graph_, prefix + "add_position", sum,
              lookup("position_embeddings", "position_ids", {.padding_idx = config_.pad_token_id}), text_count_);
    const auto table = [&](const char* axis) {
      return builder_.parameter(fmt::format("{}{}_position_embeddings.weight", prefix, axis));
    };
    const ValueId spatial =
        add_single(graph_, {.op = Op::kSpatialEmbedding,
                            .name = prefix + "spatial",
                            .inputs = {table("x"), table("y"), table("h"), table("w"), builder_.input("bbox")},
                            .row_count = text_count_});
    sum = add(graph_, prefix + "add_spatial", sum, spatial, text_count_);
    sum = builder_.norm(prefix + "LayerNorm", sum, config_.layer_norm_eps, text_count_);
    return builder_.drop(prefix + "dropout", sum, config_.hidden_dropout_prob, builder_.input("text_row_keys"),
                         text_count_);
  }

  ValueId visual_embedding() {
    const ValueId patch_count = builder_.input("patch_rows"), visual_count = builder_.input("visual_rows");
    const ValueId patches = add_single(graph_, {.op = Op::kPatchify,
                                                .name = kRoot + "patch_embed.patchify",
                                                .attributes = PatchAttributes{config_.patch_size},
                                                .inputs = {builder_.input("pixel_values")},
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

  ValueId layer(std::int64_t index, ValueId hidden) {
    const std::string prefix = layer_prefix(index);
    const std::string self = prefix + "attention.self";
    const ValueId q = builder_.dense(self + ".query", hidden, row_count_);
    const ValueId k = builder_.dense(self + ".key", hidden, row_count_);
    const ValueId v = builder_.dense(self + ".value", hidden, row_count_);
    const AttentionAttributes attributes{
        .heads = config_.num_attention_heads,
        .dropout_p = builder_.rate(config_.attention_probs_dropout_prob),
        .site = builder_.next_site(),
        .position_bias = config_.has_relative_attention_bias,
        // As in `transformers`: the spatial bias is added only beside the position bias.
        .spatial_bias = config_.has_relative_attention_bias && config_.has_spatial_attention_bias,
        .max_position_distance = config_.max_rel_pos,
        .max_spatial_distance = config_.max_rel_2d_pos,
        .longest_sample = config_.max_position_embeddings + config_.visual_tokens()};
    const ValueId context = attention(graph_, self, q, k, v, context_, attributes, row_count_);
    const ValueId attended = residual(prefix + "attention.output", context, hidden);
    const ValueId expanded =
        add_single(graph_, {.op = Op::kGelu,
                            .name = prefix + "intermediate.gelu",
                            .inputs = {builder_.dense(prefix + "intermediate.dense", attended, row_count_)},
                            .row_count = row_count_});
    return residual(prefix + "output", expanded, attended);
  }

  // dense, dropout, add, LayerNorm: the second half of both sublayers.
  ValueId residual(const std::string& name, ValueId x, ValueId skip) {
    ValueId y = builder_.dense(name + ".dense", x, row_count_);
    y = builder_.drop(name + ".dropout", y, config_.hidden_dropout_prob, row_keys_, row_count_);
    y = add(graph_, name + ".add", y, skip, row_count_);
    return builder_.norm(name + ".LayerNorm", y, config_.layer_norm_eps, row_count_);
  }

  const LayoutLMv3Config& config_;
  ModelBuilder& builder_;
  Graph& graph_;
  const ValueId row_count_, text_count_, row_keys_;
  AttentionContext context_{};
};

class LayoutLMv3Encoder final : public Encoder {
 public:
  explicit LayoutLMv3Encoder(const LayoutLMv3Config& config) : config_(config) {}

  std::string_view prefix() const override { return "layoutlmv3"; }
  EncoderFacts facts() const override {
    return {
        .hidden_size = config_.hidden_size,
        .vocab_size = config_.vocab_size,
        .pad_token_id = config_.pad_token_id,
        .positions = config_.max_position_embeddings,
        .first_position = config_.pad_token_id + 1,
        .coordinates = config_.max_2d_position_embeddings,
        .token_types = config_.type_vocab_size,
        .image = {.size = config_.input_size, .patches_per_side = config_.grid(), .channels = config_.num_channels}};
  }
  std::vector<ParameterSpec> specs(const ModelOptions& options) const override { return base_specs(config_, options); }
  std::vector<LinearMap> linear_maps() const override {
    const std::int64_t d = config_.hidden_size, f = config_.intermediate_size;
    std::vector<LinearMap> maps;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const std::string layer = layer_prefix(i);
      for (const char* part : {"query", "key", "value"}) maps.push_back({layer + "attention.self." + part, d, d});
      maps.push_back({layer + "attention.output.dense", d, d});
      maps.push_back({layer + "intermediate.dense", f, d});
      maps.push_back({layer + "output.dense", d, f});
    }
    return maps;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType wide_type) const override {
    const std::int64_t samples = capacity.samples, text = capacity.text_rows, rows = this->rows(capacity),
                       visual = samples * config_.visual_tokens(), side = config_.input_size;
    const auto ints = [](const char* name, Shape shape, Full full = Full::kZeros, std::int64_t count = 0) {
      return InputSpec{.name = name, .type = {DType::kI32, shape}, .full = full, .count = count};
    };
    return {ints("input_ids", {text}),
            ints("bbox", {text, 4}),
            ints("position_ids", {text}),
            ints("token_type_ids", {text}),
            {.name = "pixel_values", .type = {wide_type, {samples, config_.num_channels, side, side}}},
            ints("row_source", {rows}),
            ints("text_row_index", {text}),
            ints("visual_row_index", {visual}),
            ints("row_keys", {rows, 2}),
            ints("text_row_keys", {text, 2}),
            ints("sample_offsets", {samples + 1}, Full::kOffsets, rows),
            ints("relative_coordinates", {rows, 3}),
            ints("key_mask", {rows}, Full::kOnes),
            ints("text_rows", {1}, Full::kCount, text),
            ints("visual_rows", {1}, Full::kCount, visual),
            ints("patch_rows", {1}, Full::kCount, samples * config_.patches()),
            ints("rows", {1}, Full::kCount, rows)};
  }

  std::int64_t rows(const ModelCapacity& capacity) const override {
    return capacity.text_rows + capacity.samples * config_.visual_tokens();
  }
  Encoded encode(ModelBuilder& builder) const override { return EncoderGraph(config_, builder).build(); }
  std::set<std::string> layer_outputs() const override {
    std::set<std::string> names;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) names.insert(layer_prefix(i) + "output.LayerNorm");
    return names;
  }

 private:
  LayoutLMv3Config config_;
};

}  // namespace

ModelDefinition layoutlmv3(const LayoutLMv3Config& config) {
  return {std::make_shared<LayoutLMv3Encoder>(config), token_head({.labels = config.num_labels(),
                                                                   .dropout = config.hidden_dropout_prob,
                                                                   .mlp = config.mlp_head(),
                                                                   .classifier_dropout = config.head_dropout(),
                                                                   .initializer_range = config.initializer_range})};
}

std::vector<std::pair<std::string, ModelDefinition>> smaller_layoutlmv3(const LayoutLMv3Config& config) {
  std::vector<std::pair<std::string, ModelDefinition>> models;
  for (const std::string name : {"layoutlmv3-base", "layoutlmv3-small", "layoutlmv3-tiny"}) {
    LayoutLMv3Config smaller = preset_config(name);
    if (smaller.hidden_size * smaller.num_hidden_layers >= config.hidden_size * config.num_hidden_layers) continue;
    smaller.labels = config.labels;
    models.emplace_back(name, layoutlmv3(smaller));
  }
  return models;
}

ModelDefinition layoutlmv3_sample() {
  LayoutLMv3Config config = preset_config("layoutlmv3-base");
  config.num_hidden_layers = 1;
  config.vocab_size = 1000;
  return layoutlmv3(config);
}

}  // namespace plimsoll
