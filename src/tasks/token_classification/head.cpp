#include "tasks/token_classification/head.h"

#include "graph/build.h"
#include "model/builder.h"

namespace plimsoll {
namespace {

class TokenHead final : public Head {
 public:
  TokenHead(const ClassifierForm& form, std::int64_t labels) : form_(form), labels_(labels) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    std::vector<ParameterSpec> specs;
    if (form_.mlp) add_linear(specs, "classifier.dense", hidden_size, hidden_size, ParameterSpec::Part::kHead);
    add_linear(specs, last(), labels_, hidden_size, ParameterSpec::Part::kHead);
    for (ParameterSpec& spec : specs) spec.normal_std = form_.initializer_range;
    return specs;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    return {{.name = std::string(input::kLabels), .type = {DType::kI32, {capacity.text_rows}}}};
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId rows = encoded.text_rows, keys = encoded.text_row_keys;
    ValueId text = builder.drop("dropout", builder.text_rows(encoded), form_.dropout, keys, rows);
    if (form_.mlp) {
      text = builder.drop("classifier.dropout", text, form_.inner_dropout, keys, rows);
      text = add_single(builder.graph(), {.op = Op::kTanh,
                                          .name = "classifier.tanh",
                                          .inputs = {builder.dense("classifier.dense", text, rows)},
                                          .row_count = rows});
      text = builder.drop("classifier.dropout2", text, form_.inner_dropout, keys, rows);
    }
    const ValueId logits = builder.dense(last(), text, rows);
    const ValueId loss =
        builder.graph().add_node({.op = Op::kCrossEntropy,
                                  .name = "loss",
                                  .inputs = {logits, builder.input(input::kLabels), builder.input(input::kLossScale)},
                                  .row_count = rows})[0];
    return {.loss = loss, .logits = logits};
  }

 private:
  const char* last() const { return form_.mlp ? "classifier.out_proj" : "classifier"; }

  ClassifierForm form_;
  std::int64_t labels_;  // C
};

}  // namespace

ModelDefinition token_classification(std::shared_ptr<const Encoder> encoder, std::int64_t labels) {
  const auto head = std::make_shared<TokenHead>(encoder->token_classifier(labels), labels);
  return {std::move(encoder), head};
}

}  // namespace plimsoll
