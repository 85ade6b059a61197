#include "model/layoutlmv3.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/build.h"
#include "model/trained_parts.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

void add_spec(std::vector<ParameterSpec>& specs, std::string name, Shape shape, Init init, Part part = Part::kOther) {
  specs.push_back({.name = std::move(name), .shape = shape, .file_shape = shape, .init = init, .part = part});
}

void add_layer_norm(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t width) {
  add_spec(specs, name + ".weight", {width}, Init::kOnes);
  add_spec(specs, name + ".bias", {width}, Init::kZeros);
}

// `part`: of the weight; the bias belongs to a head with it, and to no other part.
void add_linear(std::vector<ParameterSpec>& specs, const std::string& name, std::int64_t out, std::int64_t in,
                Part part = Part::kOther) {
  add_spec(specs, name + ".weight", {out, in}, Init::kNormal, part);
  add_spec(specs, name + ".bias", {out}, Init::kZeros, part == Part::kHead ? part : Part::kOther);
}

// Adapters behind all of the base's parameters; then, what trains.
void add_adapters(std::vector<ParameterSpec>& specs, const LayoutLMv3Config& config, const ModelOptions& options) {
  const LoraOptions& lora = options.lora;
  if (lora.enabled()) {
    for (ParameterSpec& spec : specs) spec.trains = spec.is_head();
    for (const LinearMap& map : encoder_linear_maps(config)) {
      if (!lora.modules.contains(map.name)) continue;
      add_spec(specs, lora_a_name(map.name), {lora.rank, map.in}, Init::kKaimingUniform, Part::kAdapter);
      add_spec(specs, lora_b_name(map.name), {map.out, lora.rank}, Init::kZeros, Part::kAdapter);
    }
  }
  for (ParameterSpec& spec : specs) {
    const bool frozen = std::any_of(options.freeze.begin(), options.freeze.end(), [&](const std::string& pattern) {
      return matches_pattern(pattern, spec.name);
    });
    spec.trains = spec.trains && !frozen;
  }
}

// The number of the first dropout site of an adapter, beyond the base model's, whose masks are the same with adapters and
// without; below the limit of base/dropout.h.
constexpr std::uint32_t kFirstAdapterSite = 32768;

// Builds the graph room by room; names follow the modules of `transformers`.
class Builder {
 public:
  Builder(const LayoutLMv3Config& config, const ModelCapacity& capacity, bool with_dropout, const ModelOptions& options,
          DType dtype)
      : config_(config),
        samples_(capacity.samples),
        text_(capacity.text_rows),
        rows_(capacity.text_rows + capacity.samples * config.visual_tokens()),
        with_dropout_(with_dropout),
        lora_(options.lora),
        encoder_dtype_(dtype),
        dtype_(wide(dtype)) {
    for (const ParameterSpec& spec : parameter_specs(config, options)) {
      const ValueId value = graph_.add_parameter(spec.name, {parameter_type(spec, dtype, options), spec.shape});
      parameters_[spec.name] = value;
      if (spec.trains) model_.trained.push_back(value);
    }
    std::uint32_t site = kFirstAdapterSite;
    for (const LinearMap& map : encoder_linear_maps(config)) adapter_sites_[map.name] = site++;
    add_inputs();
  }

  ModelGraph build() {
    const ValueId packed = add_single(graph_, {.op = Op::kPackRows,
                                               .name = "layoutlmv3.concat",
                                               .inputs = {text_embedding(), visual_embedding(), row_source_,
                                                          text_row_index_, visual_row_index_},
                                               .row_count = row_count_});
    ValueId hidden = norm("layoutlmv3.LayerNorm", packed, config_.layer_norm_eps, row_count_);
    hidden = drop("layoutlmv3.dropout", hidden, config_.hidden_dropout_prob, row_keys_, row_count_);
    hidden = cast(graph_, "layoutlmv3.encoder.cast", hidden, encoder_dtype_, row_count_);
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) hidden = layer(i, hidden);
    head(hidden);
    model_.graph = std::move(graph_);
    return std::move(model_);
  }

 private:
  ValueId input(const char* name, Shape shape) { return graph_.add_input(name, {DType::kI32, shape}); }
  ValueId parameter(const std::string& name) const { return parameters_.at(name); }

  void add_inputs() {
    const std::int64_t visual = samples_ * config_.visual_tokens();
    input_ids_ = input("input_ids", {text_});
    bbox_ = input("bbox", {text_, 4});
    position_ids_ = input("position_ids", {text_});
    token_type_ids_ = input("token_type_ids", {text_});
    labels_ = input("labels", {text_});
    pixel_values_ = graph_.add_input(
        "pixel_values", {dtype_, {samples_, config_.num_channels, config_.input_size, config_.input_size}});
    row_source_ = input("row_source", {rows_});
    text_row_index_ = input("text_row_index", {text_});
    visual_row_index_ = input("visual_row_index", {visual});
    row_keys_ = input("row_keys", {rows_, 2});
    text_row_keys_ = input("text_row_keys", {text_, 2});
    dropout_key_ = input("dropout_key", {2});
    context_ = {.sample_offsets = input("sample_offsets", {samples_ + 1}),
                .relative_coordinates = input("relative_coordinates", {rows_, 3}),
                .key_mask = input("key_mask", {rows_}),
                .position_table = bias_table("rel_pos_bias", config_.rel_pos_bins),
                .x_table = bias_table("rel_pos_x_bias", config_.rel_2d_pos_bins),
                .y_table = bias_table("rel_pos_y_bias", config_.rel_2d_pos_bins),
                .row_keys = row_keys_,
                .dropout_key = dropout_key_};
    text_count_ = input("text_rows", {1});
    visual_count_ = input("visual_rows", {1});
    patch_count_ = input("patch_rows", {1});
    row_count_ = input("rows", {1});
    loss_scale_ = graph_.add_input("loss_scale", {dtype_, {1}});
  }

  // A model without these tables still hands the kernel one, which it then ignores.
  ValueId bias_table(const std::string& name, std::int64_t bins) {
    const auto found = parameters_.find("layoutlmv3.encoder." + name + ".weight");
    if (found != parameters_.end()) return found->second;
    return graph_.add_parameter("unused." + name, {dtype_, {config_.num_attention_heads, bins}});
  }

  ValueId norm(const std::string& name, ValueId x, double eps, ValueId rows) {
    return layer_norm(graph_, name, x, parameter(name + ".weight"), parameter(name + ".bias"), eps, rows).y;
  }
  ValueId dense(const std::string& name, ValueId x, ValueId rows) {
    const ValueId y = linear(graph_, name, x, parameter(name + ".weight"), parameter(name + ".bias"), rows);
    return lora_.enabled() && lora_.modules.contains(name) ? adapt(name, x, y, rows) : y;
  }
  // y + scale B A dropout(x), for a map of the encoder.
  ValueId adapt(const std::string& name, ValueId x, ValueId y, ValueId rows) {
    const DropoutAttributes attributes{.p = with_dropout_ ? lora_.dropout : 0, .site = adapter_sites_.at(name)};
    x = dropout(graph_, name + ".lora_dropout", x, row_keys_, dropout_key_, attributes, rows);
    ValueId low = linear(graph_, name + ".lora_A", x, parameter(lora_a_name(name)), kNoValue, rows);
    low = scale(graph_, name + ".lora_scale", low, lora_.scale(), rows);
    return linear_add(graph_, name + ".lora_B", low, parameter(lora_b_name(name)), y, rows);
  }
  // Sites are numbered in the order of the model, whether or not dropout is on: a mask never depends on the graph's form.
  ValueId drop(const std::string& name, ValueId x, double p, ValueId keys, ValueId rows) {
    const std::uint32_t site = next_site_++;
    return dropout(graph_, name, x, keys, dropout_key_, {.p = with_dropout_ ? p : 0, .site = site}, rows);
  }
  ValueId lookup(const std::string& name, ValueId ids, EmbeddingAttributes attributes) {
    return embedding(graph_, name, parameter(name + ".weight"), ids, attributes, text_count_);
  }

  ValueId text_embedding() {
    const std::string prefix = "layoutlmv3.embeddings.";
    ValueId sum = lookup(prefix + "word_embeddings", input_ids_,
                         {.padding_idx = config_.pad_token_id, .row_gradient = true});
    sum = add(graph_, prefix + "add_token_type", sum, lookup(prefix + "token_type_embeddings", token_type_ids_, {}),
              text_count_);
    sum = add(graph_, prefix + "add_position", sum,
              lookup(prefix + "position_embeddings", position_ids_, {.padding_idx = config_.pad_token_id}), text_count_);
    const ValueId spatial = add_single(
        graph_, {.op = Op::kSpatialEmbedding,
                 .name = prefix + "spatial",
                 .inputs = {parameter(prefix + "x_position_embeddings.weight"),
                            parameter(prefix + "y_position_embeddings.weight"),
                            parameter(prefix + "h_position_embeddings.weight"),
                            parameter(prefix + "w_position_embeddings.weight"), bbox_},
                 .row_count = text_count_});
    sum = add(graph_, prefix + "add_spatial", sum, spatial, text_count_);
    sum = norm(prefix + "LayerNorm", sum, config_.layer_norm_eps, text_count_);
    return drop(prefix + "dropout", sum, config_.hidden_dropout_prob, text_row_keys_, text_count_);
  }

  ValueId visual_embedding() {
    const ValueId patches = add_single(graph_, {.op = Op::kPatchify,
                                                .name = "layoutlmv3.patch_embed.patchify",
                                                .attributes = PatchAttributes{config_.patch_size},
                                                .inputs = {pixel_values_},
                                                .row_count = patch_count_});
    const ValueId projected = dense("layoutlmv3.patch_embed.proj", patches, patch_count_);
    const ValueId embedded = add_single(
        graph_, {.op = Op::kVisualEmbedding,
                 .name = "layoutlmv3.visual_embedding",
                 .inputs = {projected, parameter("layoutlmv3.cls_token"), parameter("layoutlmv3.pos_embed")},
                 .row_count = visual_count_});
    constexpr double kVisualNormEps = 1e-6;  // fixed in `transformers`, not the config's
    return norm("layoutlmv3.norm", embedded, kVisualNormEps, visual_count_);
  }

  ValueId layer(std::int64_t index, ValueId hidden) {
    const std::string prefix = fmt::format("layoutlmv3.encoder.layer.{}.", index);
    const std::string self = prefix + "attention.self";
    const ValueId q = dense(self + ".query", hidden, row_count_);
    const ValueId k = dense(self + ".key", hidden, row_count_);
    const ValueId v = dense(self + ".value", hidden, row_count_);
    const AttentionAttributes attributes{
        .heads = config_.num_attention_heads,
        .dropout_p = with_dropout_ ? config_.attention_probs_dropout_prob : 0,
        .site = next_site_++,
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
                            .inputs = {dense(prefix + "intermediate.dense", attended, row_count_)},
                            .row_count = row_count_});
    return residual(prefix + "output", expanded, attended);
  }

  // dense, dropout, add, LayerNorm: the second half of both sublayers.
  ValueId residual(const std::string& name, ValueId x, ValueId skip) {
    ValueId y = dense(name + ".dense", x, row_count_);
    y = drop(name + ".dropout", y, config_.hidden_dropout_prob, row_keys_, row_count_);
    y = add(graph_, name + ".add", y, skip, row_count_);
    return norm(name + ".LayerNorm", y, config_.layer_norm_eps, row_count_);
  }

  void head(ValueId hidden) {
    ValueId text = add_single(graph_, {.op = Op::kGatherRows,
                                       .name = "text_rows",
                                       .inputs = {hidden, text_row_index_, row_source_},
                                       .row_count = text_count_});
    text = cast(graph_, "text_rows.cast", text, dtype_, text_count_);
    text = drop("dropout", text, config_.hidden_dropout_prob, text_row_keys_, text_count_);
    if (config_.mlp_head()) {
      text = drop("classifier.dropout", text, config_.head_dropout(), text_row_keys_, text_count_);
      text = add_single(graph_, {.op = Op::kTanh,
                                 .name = "classifier.tanh",
                                 .inputs = {dense("classifier.dense", text, text_count_)},
                                 .row_count = text_count_});
      text = drop("classifier.dropout2", text, config_.head_dropout(), text_row_keys_, text_count_);
    }
    model_.logits = dense(config_.mlp_head() ? "classifier.out_proj" : "classifier", text, text_count_);
    model_.loss = graph_.add_node({.op = Op::kCrossEntropy,
                                   .name = "loss",
                                   .inputs = {model_.logits, labels_, loss_scale_},
                                   .row_count = text_count_})[0];
    graph_.mark_output(model_.loss);
  }

  const LayoutLMv3Config& config_;
  const std::int64_t samples_, text_, rows_;
  const bool with_dropout_;
  const LoraOptions& lora_;
  const DType encoder_dtype_, dtype_;
  Graph graph_;
  ModelGraph model_;
  std::map<std::string, ValueId> parameters_;
  std::map<std::string, std::uint32_t> adapter_sites_;  // by module, whether it has an adapter or not
  std::uint32_t next_site_ = 0;
  ValueId input_ids_ = kNoValue, bbox_ = kNoValue, position_ids_ = kNoValue, token_type_ids_ = kNoValue,
          labels_ = kNoValue, pixel_values_ = kNoValue, row_source_ = kNoValue, text_row_index_ = kNoValue,
          visual_row_index_ = kNoValue, row_keys_ = kNoValue, text_row_keys_ = kNoValue, dropout_key_ = kNoValue,
          text_count_ = kNoValue, visual_count_ = kNoValue, patch_count_ = kNoValue, row_count_ = kNoValue,
          loss_scale_ = kNoValue;
  AttentionContext context_{};
};

}  // namespace

std::vector<ParameterSpec> parameter_specs(const LayoutLMv3Config& c, const ModelOptions& options) {
  std::vector<ParameterSpec> specs;
  const std::string root = "layoutlmv3.";
  const std::string embeddings = root + "embeddings.";
  add_spec(specs, root + "cls_token", {1, 1, c.hidden_size}, Init::kZeros);
  add_spec(specs, root + "pos_embed", {1, c.visual_tokens(), c.hidden_size}, Init::kZeros);
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
  add_linear(specs, root + "patch_embed.proj", c.hidden_size, c.num_channels * c.patch_size * c.patch_size);
  specs[specs.size() - 2].file_shape = {c.hidden_size, c.num_channels, c.patch_size, c.patch_size};
  add_layer_norm(specs, root + "LayerNorm", c.hidden_size);
  add_layer_norm(specs, root + "norm", c.hidden_size);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("{}encoder.layer.{}.", root, i);
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
    add_spec(specs, fmt::format("{}encoder.{}.weight", root, name), {c.num_attention_heads, bins}, Init::kNormal);
    specs.back().trains = options.train_relative_position_tables;
  };
  if (c.has_relative_attention_bias) add_table("rel_pos_bias", c.rel_pos_bins);
  if (c.has_spatial_attention_bias) {
    add_table("rel_pos_x_bias", c.rel_2d_pos_bins);
    add_table("rel_pos_y_bias", c.rel_2d_pos_bins);
  }
  if (c.mlp_head()) {
    add_linear(specs, "classifier.dense", c.hidden_size, c.hidden_size, Part::kHead);
    add_linear(specs, "classifier.out_proj", c.num_labels(), c.hidden_size, Part::kHead);
  } else {
    add_linear(specs, "classifier", c.num_labels(), c.hidden_size, Part::kHead);
  }
  add_adapters(specs, c, options);
  return specs;
}

DType parameter_type(const ParameterSpec& spec, DType dtype, const ModelOptions& options) {
  const bool encoder_matrix = spec.part == Part::kEncoderMatrix;
  if (!spec.trains && is_coded(options.frozen_weights)) {
    if (encoder_matrix) return options.frozen_weights;
    if (spec.part == Part::kWordEmbedding) return DType::kQ8;
  }
  return dtype == DType::kBF16 && encoder_matrix ? dtype : wide(dtype);
}

std::set<std::string> layer_output_nodes(const LayoutLMv3Config& config) {
  std::set<std::string> names;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    names.insert(fmt::format("layoutlmv3.encoder.layer.{}.output.LayerNorm", i));
  }
  return names;
}

std::int64_t parameter_count(const std::vector<ParameterSpec>& specs) {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : specs) count += spec.shape.elements();
  return count;
}

ModelGraph build_layoutlmv3(const LayoutLMv3Config& config, const ModelCapacity& capacity, bool dropout,
                            const ModelOptions& options, DType dtype) {
  return Builder(config, capacity, dropout, options, dtype).build();
}

}  // namespace plimsoll
