#include "tasks/causal_lm/head.h"

#include "graph/build.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

class LanguageHead : public Head {
 public:
  LanguageHead(LanguageHeadForm form, std::int64_t vocab_size, LossOptions loss = {})
      : form_(std::move(form)), vocab_size_(vocab_size), loss_(std::move(loss)) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    if (form_.tied) return {};
    std::vector<ParameterSpec> specs;
    add_spec(specs, form_.weight, {vocab_size_, hidden_size}, ParameterSpec::Init::kNormal,
             ParameterSpec::Part::kLanguageHead);
    specs.back().normal_std = form_.initializer_range;
    return specs;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    return {{.name = std::string(input::kLabels), .type = {DType::kI32, {capacity.text_rows}}, .next_row = true}};
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    Graph& graph = builder.graph();
    const ValueId rows = encoded.text_rows, labels = builder.input(input::kLabels);
    const ValueId logits = linear(graph, "lm_head", builder.text_rows(encoded, scoring_type(builder)),
                                  builder.parameter(form_.weight), kNoValue, rows);
    const ValueId scores = add_single(
        graph, {.op = Op::kLabelScores, .name = "label_scores", .inputs = {logits, labels}, .row_count = rows});
    return {.loss = append_class_loss(builder, loss_, logits, labels, rows), .logits = scores};
  }

  std::string_view scoring_weight() const override { return form_.weight; }

 protected:
  // Returns the type of rows and scores: in BF16, as with torch.autocast; the loss is always computed in F32.
  static DType scoring_type(const ModelBuilder& builder) {
    return builder.encoder_dtype() == DType::kBF16 ? DType::kBF16 : builder.wide_dtype();
  }

 private:
  LanguageHeadForm form_;
  std::int64_t vocab_size_;  // V
  LossOptions loss_;
};

// Its logits are those of each sample's last row only, for the next token.
class NextTokenHead final : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    const auto ints = [](std::string_view name, std::int64_t count) {
      return InputSpec{.name = std::string(name), .type = {DType::kI32, {count}}};
    };
    return {ints(input::kLastRows, capacity.samples), ints(input::kLastRowOf, capacity.text_rows),
            ints(input::kSamples, 1)};
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    Graph& graph = builder.graph();
    const ValueId rows = builder.sample_rows(encoded, scoring_type(builder)), samples = builder.input(input::kSamples);
    const ValueId weight = builder.parameter(std::string(scoring_weight()));
    const ValueId logits = linear(graph, "lm_head", rows, weight, kNoValue, samples);
    return {.logits = cast(graph, "lm_head.cast", logits, builder.wide_dtype(), samples)};
  }
};

}  // namespace

ModelDefinition next_token_model(std::shared_ptr<const Encoder> encoder) {
  const auto head = std::make_shared<NextTokenHead>(encoder->language_head(), encoder->facts().vocab_size);
  return {std::move(encoder), head};
}

ModelDefinition causal_language_model(std::shared_ptr<const Encoder> encoder, const LossOptions& loss) {
  const auto head = std::make_shared<LanguageHead>(encoder->language_head(), encoder->facts().vocab_size, loss);
  return {std::move(encoder), head};
}

}  // namespace plimsoll
