#include <fmt/format.h>

#include <cmath>

#include "families/lilt/lilt.h"
#include "families/parts/text_rows.h"
#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

using Init = ParameterSpec::Init;
using Part = ParameterSpec::Part;

const std::string kText = "lilt.embeddings.", kLayout = "lilt.layout_embeddings.";

std::string layer_prefix(std::int64_t layer) { return fmt::format("lilt.encoder.layer.{}.", layer); }

// A linear map of a layer, as `transformers` lists them.
struct LayerMap {
  std::string_view module;
  std::int64_t out, in;
  bool normed;      // a LayerNorm of the output's width follows: "….LayerNorm" if the map is "….dense"
  bool last_layer;  // the last layer uses it
};
LayerShape shape_of(const LiltConfig& c, std::int64_t layer) {
  return layer_shapes(c, c.layout_intermediate_size())[static_cast<std::size_t>(layer)];
}

std::vector<LayerMap> layer_maps(const LiltConfig& c, std::int64_t layer) {
  const LayerShape shape = shape_of(c, layer);
  const std::int64_t d = c.hidden_size, f = shape.intermediate_size, layout = c.layout_size(),
                     layout_f = shape.layout_intermediate_size;
  // The columns of the layer's heads, of text and of layout.
  const std::int64_t a = shape.attention_heads * c.head_size(), b = shape.attention_heads * c.layout_head_size();
  return {{"attention.self.query", a, d, false, true},
          {"attention.self.key", a, d, false, true},
          {"attention.self.value", a, d, false, true},
          {"attention.self.layout_query", b, layout, false, true},
          {"attention.self.layout_key", b, layout, false, true},
          {"attention.self.layout_value", b, layout, false, false},
          {"attention.output.dense", d, a, true, true},
          {"attention.layout_output.dense", layout, b, true, false},
          {"intermediate.dense", f, d, false, true},
          {"output.dense", d, f, true, true},
          {"layout_intermediate.dense", layout_f, layout, false, false},
          {"layout_output.dense", layout, layout_f, true, false}};
}

struct Streams {
  ValueId text, layout;  // layout: kNoValue after the last layer
};

// Appends the embeddings and the layers of both streams.
class LiltGraph {
 public:
  LiltGraph(const LiltConfig& config, ModelBuilder& builder)
      : config_(config),
        builder_(builder),
        graph_(builder.graph()),
        rows_(builder.input(input::kRows)),
        context_(text_row_context(builder).context) {}

  Encoded build() {
    const ValueId text = text_embedding();
    Streams hidden{.text = text, .layout = layout_embedding()};
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      hidden = layer(i, hidden, i + 1 == config_.num_hidden_layers);
    }
    return {.hidden = hidden.text, .text_rows = rows_, .text_row_keys = context_.row_keys};
  }

 private:
  ValueId lookup(const std::string& table, std::string_view ids, EmbeddingAttributes attributes = {}) {
    return builder_.lookup(table, builder_.input(ids), attributes, rows_);
  }

  // Ends both embeddings.
  ValueId normed(const std::string& prefix, ValueId x) {
    x = builder_.norm(prefix + "LayerNorm", x, config_.layer_norm_eps, rows_);
    x = builder_.drop(prefix + "dropout", x, config_.hidden_dropout_prob, context_.row_keys, rows_);
    return cast(graph_, prefix + "cast", x, builder_.encoder_dtype(), rows_);
  }

  ValueId text_embedding() {
    const std::int64_t pad = config_.pad_token_id;
    ValueId sum = lookup(kText + "word_embeddings", input::kInputIds, {.padding_idx = pad, .row_gradient = true});
    sum = add(graph_, kText + "add_token_type", sum, lookup(kText + "token_type_embeddings", input::kTokenTypeIds),
              rows_);
    sum = add(graph_, kText + "add_position", sum,
              lookup(kText + "position_embeddings", input::kPositionIds, {.padding_idx = pad}), rows_);
    return normed(kText, sum);
  }

  ValueId layout_embedding() {
    const auto table = [&](const char* axis) {
      return builder_.parameter(fmt::format("{}{}_position_embeddings.weight", kLayout, axis));
    };
    const ValueId spatial =
        spatial_embedding(graph_, kLayout + "spatial", {table("x"), table("y"), table("h"), table("w")},
                          builder_.input(input::kBbox), false, rows_);
    const ValueId boxes = builder_.dense(kLayout + "box_linear_embeddings", spatial, rows_);
    const ValueId positions =
        lookup(kLayout + "box_position_embeddings", input::kPositionIds, {.padding_idx = config_.pad_token_id});
    return normed(kLayout, add(graph_, kLayout + "add_position", boxes, positions, rows_));
  }

  Streams layer(std::int64_t index, Streams hidden, bool last) {
    const std::string name = layer_prefix(index);
    const Streams context = attend(name + "attention.self", shape_of(config_, index).attention_heads, hidden, last);
    const auto sublayers = [&](const char* stream, ValueId attended, ValueId skip) {
      const std::string prefix = stream;
      attended = residual(name + "attention." + prefix + "output", attended, skip);
      const ValueId expanded =
          add_single(graph_, {.op = Op::kGelu,
                              .name = name + prefix + "intermediate.gelu",
                              .inputs = {builder_.dense(name + prefix + "intermediate.dense", attended, rows_)},
                              .row_count = rows_});
      return residual(name + prefix + "output", expanded, attended);
    };
    const ValueId text = sublayers("", context.text, hidden.text);
    return {.text = text, .layout = last ? kNoValue : sublayers("layout_", context.layout, hidden.layout)};
  }

  Streams attend(const std::string& self, std::int64_t heads, Streams hidden, bool last) {
    const std::int64_t text = config_.head_size(), layout = config_.layout_head_size();
    const auto both = [&](const char* part, bool layout_too, double text_factor, double layout_factor) {
      const ValueId first = builder_.dense(fmt::format("{}.{}", self, part), hidden.text, rows_);
      const ValueId second =
          layout_too ? builder_.dense(fmt::format("{}.layout_{}", self, part), hidden.layout, rows_) : kNoValue;
      const HeadsAttributes form{
          .heads = heads, .second_size = layout, .first_factor = text_factor, .second_factor = layout_factor};
      return concat_heads(graph_, fmt::format("{}.both_{}", self, part), first, second, form, rows_);
    };
    const auto size = static_cast<double>(text + layout);
    const ValueId q =
        both("query", true, std::sqrt(size / static_cast<double>(text)), std::sqrt(size / static_cast<double>(layout)));
    const ValueId k = both("key", true, 1, 1);
    const ValueId v = both("value", !last, 1, 1);
    const AttentionAttributes attributes{.heads = heads,
                                         .dropout_p = builder_.rate(config_.attention_probs_dropout_prob),
                                         .site = builder_.next_site(),
                                         .longest_sample = config_.max_position_embeddings};
    const HeadsValues parts =
        split_heads(graph_, self + ".split", attention(graph_, self, q, k, v, context_, attributes, rows_),
                    {.heads = heads, .first_size = text, .second_size = layout, .second = !last}, rows_);
    return {.text = parts.first, .layout = parts.second};
  }

  // Applies dense, dropout, add and LayerNorm: the second half of both sublayers.
  ValueId residual(const std::string& name, ValueId x, ValueId skip) {
    ValueId y = builder_.dense(name + ".dense", x, rows_);
    y = builder_.drop(name + ".dropout", y, config_.hidden_dropout_prob, context_.row_keys, rows_);
    y = add(graph_, name + ".add", y, skip, rows_);
    return builder_.norm(name + ".LayerNorm", y, config_.layer_norm_eps, rows_);
  }

  const LiltConfig& config_;
  ModelBuilder& builder_;
  Graph& graph_;
  const ValueId rows_;
  const AttentionContext context_;
};

class LiltEncoder final : public Encoder {
 public:
  explicit LiltEncoder(const LiltConfig& config) : config_(config) {}

  std::string_view model_type() const override { return "lilt"; }
  std::string_view class_name() const override { return "Lilt"; }
  std::string_view prefix() const override { return "lilt"; }
  void write_config(nlohmann::json& object) const override { write_lilt(config_, object); }

  ClassifierForm token_classifier(std::int64_t) const override {
    return {.dropout = config_.head_dropout(), .initializer_range = config_.initializer_range};
  }
  ClassifierForm sequence_classifier() const override {
    return {.mlp = true, .inner_dropout = config_.head_dropout(), .initializer_range = config_.initializer_range};
  }
  ClassifierForm span_classifier() const override {
    return {.name = "qa_outputs", .initializer_range = config_.initializer_range};
  }

  EncoderFacts facts() const override {
    const auto pad = static_cast<std::int32_t>(config_.pad_token_id);
    return {.hidden_size = config_.hidden_size,
            .vocab_size = config_.vocab_size,
            .token = {.pad_id = pad, .first_position = pad + 1},
            .positions = config_.max_position_embeddings,
            .coordinates = config_.max_2d_position_embeddings,
            .token_types = config_.type_vocab_size,
            .image = {}};
  }

  std::vector<ParameterSpec> specs(const ModelOptions&) const override {
    const LiltConfig& c = config_;
    std::vector<ParameterSpec> specs;
    const auto add_table = [&](const std::string& name, Shape shape, Init init, Part part = Part::kEmbedding) {
      add_spec(specs, name + ".weight", shape, init, part);
    };
    add_table(kText + "word_embeddings", {c.vocab_size, c.hidden_size}, Init::kNormalPaddingRow, Part::kWordEmbedding);
    add_table(kText + "position_embeddings", {c.max_position_embeddings, c.hidden_size}, Init::kNormalPaddingRow);
    add_table(kText + "token_type_embeddings", {c.type_vocab_size, c.hidden_size}, Init::kNormal);
    add_layer_norm(specs, kText + "LayerNorm", c.hidden_size);
    for (const char* axis : {"x", "y", "h", "w"}) {
      add_table(fmt::format("{}{}_position_embeddings", kLayout, axis),
                {c.max_2d_position_embeddings, c.hidden_size / 6}, Init::kNormal);
    }
    add_table(kLayout + "box_position_embeddings", {c.max_position_embeddings, c.layout_size()},
              Init::kNormalPaddingRow);
    add_linear(specs, kLayout + "box_linear_embeddings", c.layout_size(), c.hidden_size);
    add_layer_norm(specs, kLayout + "LayerNorm", c.layout_size());
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
      for (const LayerMap& map : layer_maps(c, i)) {
        const std::size_t first = specs.size();
        const std::string name = layer_prefix(i) + std::string(map.module);
        add_linear(specs, name, map.out, map.in, Part::kEncoderMatrix);
        if (map.normed) add_layer_norm(specs, name.substr(0, name.rfind('.')) + ".LayerNorm", map.out);
        const bool used = map.last_layer || i + 1 < c.num_hidden_layers;
        for (std::size_t s = first; s < specs.size(); ++s) {
          specs[s].layer = i;
          specs[s].trains = used;
        }
      }
    }
    initialise_as(c, specs);
    return specs;
  }

  // Returns only the maps that are used: an adapter of another one could learn nothing.
  std::vector<LinearMap> linear_maps() const override {
    std::vector<LinearMap> linear;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      for (const LayerMap& map : layer_maps(config_, i)) {
        if (!map.last_layer && i + 1 == config_.num_hidden_layers) continue;
        linear.push_back({layer_prefix(i) + std::string(map.module), map.out, map.in});
      }
    }
    return linear;
  }

  // Both streams share their heads. Each has its own feed-forward network, except the layout's in the last layer.
  std::vector<PrunableUnits> prunable() const override {
    using Kind = PrunableUnits::Kind;
    std::vector<PrunableUnits> all;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const std::string layer = layer_prefix(i), self = layer + "attention.self.";
      const LayerShape shape = shape_of(config_, i);
      const auto attends = [&](const std::string& stream, std::int64_t width) {
        return PrunableUnits::Stream{
            .producers = {self + stream + "query", self + stream + "key", self + stream + "value"},
            .consumer = fmt::format("{}attention.{}output.dense", layer, stream),
            .width = width};
      };
      const auto expands = [&](const std::string& stream) {
        return PrunableUnits::Stream{.producers = {fmt::format("{}{}intermediate.dense", layer, stream)},
                                     .consumer = fmt::format("{}{}output.dense", layer, stream)};
      };
      all.push_back({.kind = Kind::kHeads,
                     .layer = i,
                     .units = shape.attention_heads,
                     .streams = {attends("", config_.head_size()), attends("layout_", config_.layout_head_size())},
                     .key = kHeadsKey,
                     .tables = {}});
      all.push_back({.kind = Kind::kColumns,
                     .layer = i,
                     .units = shape.intermediate_size,
                     .streams = {expands("")},
                     .key = kColumnsKey,
                     .tables = {}});
      all.push_back({.kind = Kind::kColumns,
                     .layer = i,
                     .units = shape.layout_intermediate_size,
                     .streams = {expands("layout_")},
                     .key = kLayoutColumnsKey,
                     .shrink = config_.channel_shrink_ratio,
                     .tables = {},
                     .used = i + 1 < config_.num_hidden_layers});
    }
    return all;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity, DType) const override {
    return text_row_inputs(capacity, true);
  }

  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.text_rows; }
  Encoded encode(ModelBuilder& builder) const override { return LiltGraph(config_, builder).build(); }

  // Returns those of both streams.
  std::set<std::string> layer_outputs() const override {
    std::set<std::string> names;
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      names.insert(layer_prefix(i) + "output.LayerNorm");
      if (i + 1 < config_.num_hidden_layers) names.insert(layer_prefix(i) + "layout_output.LayerNorm");
    }
    return names;
  }

 private:
  LiltConfig config_;
};

}  // namespace

std::shared_ptr<const Encoder> lilt_encoder(const LiltConfig& config) { return std::make_shared<LiltEncoder>(config); }

}  // namespace plimsoll
