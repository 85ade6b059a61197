#include "model/grad_cache.h"

#include <memory>
#include <utility>

#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

class EmbeddingHead final : public Head {
 public:
  EmbeddingHead(std::shared_ptr<const Head> whole, EmbeddingPass pass, std::int64_t update_samples)
      : whole_(std::move(whole)), pass_(pass), update_samples_(update_samples) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override { return whole_->specs(hidden_size); }
  // The head's inputs other than the encoder's rows are collected from the batches of the first pass.
  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override { return whole_->inputs(capacity); }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    Graph& graph = builder.graph();
    const ValueId rows = builder.sample_rows(encoded);
    const TensorType type = graph.type(rows);
    const ValueId table = graph.add_state(kEmbeddingTable, {type.dtype, {update_samples_, type.shape[1]}});
    const ValueId first = graph.add_input(kFirstSampleInput, {DType::kI32, {1}});
    const ValueId samples = builder.input(input::kSamples);
    if (pass_ == EmbeddingPass::kPut) {
      add_single(graph,
                 {.op = Op::kPutRows, .name = "put_embeddings", .inputs = {table, rows, first}, .row_count = samples});
      return {.logits = rows};
    }
    const ValueId loss = graph.add_node(
        {.op = Op::kCachedGradient, .name = "loss", .inputs = {rows, table, first}, .row_count = samples})[0];
    return {.loss = loss, .logits = rows};
  }

 private:
  std::shared_ptr<const Head> whole_;
  EmbeddingPass pass_;
  std::int64_t update_samples_;
};

// The table in place of an encoder.
class TableEncoder final : public Encoder {
 public:
  explicit TableEncoder(const ModelDefinition& model) : encoder_(model.shared_encoder()) {
    const ModelOptions plain;
    ModelBuilder builder(model, {.samples = 1, .text_rows = 16}, false, plain, DType::kF32);
    encoder_->encode(builder);
    sites_ = builder.next_site();
  }

  std::string_view model_type() const override { return encoder_->model_type(); }
  std::string_view class_name() const override { return encoder_->class_name(); }
  std::string model_class(std::string_view head) const override { return encoder_->model_class(head); }
  std::string_view layers_key() const override { return encoder_->layers_key(); }
  std::string_view prefix() const override { return encoder_->prefix(); }
  void write_config(nlohmann::json& object) const override { encoder_->write_config(object); }
  ClassifierForm token_classifier(std::int64_t labels) const override { return encoder_->token_classifier(labels); }
  ClassifierForm sequence_classifier() const override { return encoder_->sequence_classifier(); }
  ClassifierForm span_classifier() const override { return encoder_->span_classifier(); }
  EncoderFacts facts() const override { return encoder_->facts(); }
  std::vector<ParameterSpec> specs(const ModelOptions& options) const override { return encoder_->specs(options); }
  std::vector<LinearMap> linear_maps() const override { return encoder_->linear_maps(); }
  std::vector<PrunableUnits> prunable() const override { return encoder_->prunable(); }
  std::set<std::string> layer_outputs() const override { return {}; }

  std::vector<InputSpec> inputs(const ModelCapacity&, DType) const override { return {}; }
  std::int64_t rows(const ModelCapacity& capacity) const override { return capacity.samples; }
  Encoded encode(ModelBuilder& builder) const override {
    for (std::uint32_t site = 0; site < sites_; ++site) builder.next_site();
    const std::int64_t samples = builder.graph().type(builder.input(input::kLabels)).shape[0];
    const ValueId table =
        builder.graph().add_state(kEmbeddingTable, {builder.wide_dtype(), {samples, facts().hidden_size}});
    return {.hidden = table, .sample_rows = table};
  }

 private:
  std::shared_ptr<const Encoder> encoder_;
  std::uint32_t sites_ = 0;  // of the encoder's dropout
};

// The head without the inputs that say where the encoder's rows are.
class ComparisonHead final : public Head {
 public:
  explicit ComparisonHead(std::shared_ptr<const Head> whole) : whole_(std::move(whole)) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override { return whole_->specs(hidden_size); }
  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    std::vector<InputSpec> inputs = whole_->inputs(capacity);
    std::erase_if(inputs, [](const InputSpec& input) {
      return input.name == input::kFirstRows || input.name == input::kFirstRowOf || input.name == input::kLastRows ||
             input.name == input::kLastRowOf;
    });
    return inputs;
  }
  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    return whole_->append(builder, encoded);
  }
  std::int64_t samples_per_example() const override { return whole_->samples_per_example(); }

 private:
  std::shared_ptr<const Head> whole_;
};

}  // namespace

bool has_grad_cache(const ModelDefinition& model) { return model.shared_head()->reads_sample_rows_alone(); }

ModelDefinition embedding_part(const ModelDefinition& model, EmbeddingPass pass, std::int64_t update_samples) {
  return {model.shared_encoder(), std::make_shared<EmbeddingHead>(model.shared_head(), pass, update_samples)};
}

ModelDefinition comparison_part(const ModelDefinition& model) {
  return {std::make_shared<TableEncoder>(model), std::make_shared<ComparisonHead>(model.shared_head())};
}

}  // namespace plimsoll
