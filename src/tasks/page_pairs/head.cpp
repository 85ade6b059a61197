#include "tasks/page_pairs/head.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "graph/build.h"
#include "model/builder.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

constexpr const char* kScore = "score.weight";

class PairHead : public Head {
 public:
  PairHead(std::shared_ptr<const Encoder> encoder, const TaskConfig& config, std::int64_t limit)
      : encoder_(std::move(encoder)), form_(encoder_->sequence_classifier()), loss_(config.loss), limit_(limit) {}

  std::int64_t samples_per_example() const override { return 2; }
  bool reads_sample_rows_alone() const override { return true; }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    std::vector<InputSpec> inputs = sample_row_inputs(form_, *encoder_, capacity);
    inputs.push_back({.name = std::string(input::kLabels),
                      .type = {DType::kI32, {capacity.samples}},
                      .target = {.names = {std::string(input::kLabels)}, .limit = limit_}});
    return inputs;
  }

 protected:
  const ClassifierForm& form() const { return form_; }
  const LossOptions& loss() const { return loss_; }

  static ValueId join(ModelBuilder& builder, ValueId rows, bool products) {
    return add_single(builder.graph(), {.op = Op::kJoinPairs,
                                        .name = "pairs",
                                        .attributes = JoinAttributes{products},
                                        .inputs = {rows},
                                        .row_count = builder.input(input::kSamples)});
  }
  ValueId drop(ModelBuilder& builder, ValueId rows) const {
    return builder.drop("dropout", rows, form_.dropout, builder.input(input::kSampleKeys),
                        builder.input(input::kSamples));
  }

 private:
  std::shared_ptr<const Encoder> encoder_;
  ClassifierForm form_;
  LossOptions loss_;
  std::int64_t limit_;  // of targets
};

class PairClassifier final : public PairHead {
 public:
  PairClassifier(std::shared_ptr<const Encoder> encoder, const TaskConfig& config)
      : PairHead(std::move(encoder), config, config.num_labels()), labels_(config.num_labels()) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    std::vector<ParameterSpec> specs;
    add_linear(specs, "classifier", labels_, 4 * hidden_size, ParameterSpec::Part::kHead);
    for (ParameterSpec& spec : specs) spec.normal_std = form().initializer_range;
    return specs;
  }
  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    std::vector<InputSpec> inputs = PairHead::inputs(capacity);
    std::ranges::move(class_loss_inputs(loss()), std::back_inserter(inputs));
    return inputs;
  }
  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId samples = builder.input(input::kSamples);
    const ValueId joined = drop(builder, join(builder, builder.sample_rows(encoded), true));
    const ValueId logits = builder.dense("classifier", joined, samples);
    return {.loss = append_class_loss(builder, loss(), logits, builder.input(input::kLabels), samples),
            .logits = logits};
  }

 private:
  std::int64_t labels_;  // C
};

class PairRanker final : public PairHead {
 public:
  PairRanker(std::shared_ptr<const Encoder> encoder, const TaskConfig& config)
      : PairHead(std::move(encoder), config, 1) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    std::vector<ParameterSpec> specs;
    add_spec(specs, kScore, {1, hidden_size}, ParameterSpec::Init::kNormal, ParameterSpec::Part::kHead);
    specs.back().normal_std = form().initializer_range;
    return specs;
  }
  // The sigmoid of a difference is the softmax of two scores.
  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId samples = builder.input(input::kSamples);
    const ValueId rows = drop(builder, builder.sample_rows(encoded));
    const ValueId scores = linear(builder.graph(), "score", rows, builder.parameter(kScore), kNoValue, samples);
    const ValueId logits = join(builder, scores, false);
    return {.loss = append_class_loss(builder, {}, logits, builder.input(input::kLabels), samples), .logits = logits};
  }
};

class PairEmbedder final : public PairHead {
 public:
  PairEmbedder(std::shared_ptr<const Encoder> encoder, const TaskConfig& config)
      : PairHead(std::move(encoder), config, std::numeric_limits<std::int32_t>::max()) {}

  std::vector<ParameterSpec> specs(std::int64_t) const override { return {}; }
  bool compares_examples() const override { return true; }
  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId rows = builder.sample_rows(encoded);
    const ValueId contrast =
        builder.graph().add_node({.op = Op::kContrastiveLoss,
                                  .name = "loss",
                                  .attributes = ContrastiveAttributes{loss().temperature},
                                  .inputs = {rows, builder.input(input::kLabels), builder.input(input::kLossScale)},
                                  .row_count = builder.input(input::kSamples)})[0];
    return {.loss = contrast, .logits = rows};
  }
};

template <typename PairHeadOf>
ModelDefinition definition_of(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  const auto head = std::make_shared<PairHeadOf>(encoder, config);
  return {std::move(encoder), head};
}

}  // namespace

ModelDefinition pair_classification(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  return definition_of<PairClassifier>(std::move(encoder), config);
}

ModelDefinition pair_ranking(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  return definition_of<PairRanker>(std::move(encoder), config);
}

ModelDefinition pair_similarity(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  return definition_of<PairEmbedder>(std::move(encoder), config);
}

}  // namespace plimsoll
