#include "tasks/sequence_classification/head.h"

#include <algorithm>
#include <iterator>

#include "graph/build.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

class SequenceHead final : public Head {
 public:
  SequenceHead(std::shared_ptr<const Encoder> encoder, const TaskConfig& config)
      : encoder_(std::move(encoder)),
        form_(encoder_->sequence_classifier()),
        labels_(config.num_labels()),
        problem_(class_problem(config)),
        loss_(config.loss) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    return classifier_specs(form_, hidden_size, labels_);
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    const std::int64_t samples = capacity.samples;
    const bool single = problem_ == ClassProblem::kSingleLabel;
    const TensorType type = single ? TensorType{DType::kI32, {samples}} : TensorType{DType::kF32, {samples, labels_}};
    const Shape of_page = problem_ == ClassProblem::kMultiLabel ? Shape{labels_} : Shape{};
    std::vector<InputSpec> inputs = sample_row_inputs(form_, *encoder_, capacity);
    inputs.push_back({.name = std::string(input::kLabels),
                      .type = type,
                      .target = {.names = {std::string(input::kLabels)}, .shape = of_page, .limit = labels_}});
    std::ranges::move(class_loss_inputs(loss_), std::back_inserter(inputs));
    return inputs;
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId samples = builder.input(input::kSamples);
    const ValueId logits = append_classifier(
        builder, form_,
        {.rows = builder.sample_rows(encoded), .keys = builder.input(input::kSampleKeys), .row_count = samples});
    const ValueId labels = builder.input(input::kLabels);
    if (problem_ == ClassProblem::kSingleLabel) {
      return {.loss = append_class_loss(builder, loss_, logits, labels, samples), .logits = logits};
    }
    using Kind = ElementLossAttributes::Kind;
    const Kind kind = problem_ == ClassProblem::kRegression ? Kind::kSquaredError : Kind::kBinaryCrossEntropy;
    const ValueId loss = builder.graph().add_node({.op = Op::kElementLoss,
                                                   .name = "loss",
                                                   .attributes = ElementLossAttributes{kind},
                                                   .inputs = {logits, labels, builder.input(input::kLossScale)},
                                                   .row_count = samples})[0];
    return {.loss = loss, .logits = logits};
  }

 private:
  std::shared_ptr<const Encoder> encoder_;
  ClassifierForm form_;
  std::int64_t labels_;  // C
  ClassProblem problem_;
  LossOptions loss_;
};

}  // namespace

ClassProblem class_problem(const TaskConfig& config) {
  if (config.problem_type == "multi_label_classification") return ClassProblem::kMultiLabel;
  if (config.problem_type == "regression") return ClassProblem::kRegression;
  return ClassProblem::kSingleLabel;
}

std::string_view class_problem_name(ClassProblem problem) {
  switch (problem) {
    case ClassProblem::kSingleLabel:
      return "single_label_classification";
    case ClassProblem::kMultiLabel:
      return "multi_label_classification";
    case ClassProblem::kRegression:
      return "regression";
  }
  return {};
}

ModelDefinition sequence_classification(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  const auto head = std::make_shared<SequenceHead>(encoder, config);
  return {std::move(encoder), head};
}

}  // namespace plimsoll
