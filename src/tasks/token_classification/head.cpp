#include "tasks/token_classification/head.h"

#include "graph/build.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

class TokenHead final : public Head {
 public:
  TokenHead(ClassifierForm form, std::int64_t labels, const LossOptions& loss)
      : form_(std::move(form)), labels_(labels), loss_(loss) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    return classifier_specs(form_, hidden_size, labels_);
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    std::vector<InputSpec> inputs = class_loss_inputs(loss_);
    inputs.insert(inputs.begin(), {.name = std::string(input::kLabels), .type = {DType::kI32, {capacity.text_rows}}});
    return inputs;
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId rows = encoded.text_rows;
    const ValueId logits = append_classifier(
        builder, form_, {.rows = builder.text_rows(encoded), .keys = encoded.text_row_keys, .row_count = rows});
    return {.loss = append_class_loss(builder, loss_, logits, builder.input(input::kLabels), rows), .logits = logits};
  }

 private:
  ClassifierForm form_;
  std::int64_t labels_;  // C
  LossOptions loss_;
};

}  // namespace

ModelDefinition token_classification(std::shared_ptr<const Encoder> encoder, std::int64_t labels,
                                     const LossOptions& loss) {
  const auto head = std::make_shared<TokenHead>(encoder->token_classifier(labels), labels, loss);
  return {std::move(encoder), head};
}

}  // namespace plimsoll
