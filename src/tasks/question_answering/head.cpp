#include "tasks/question_answering/head.h"

#include "graph/build.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kColumns = 2;  // start and end

class SpanHead final : public Head {
 public:
  explicit SpanHead(ClassifierForm form) : form_(std::move(form)) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    return classifier_specs(form_, hidden_size, kColumns);
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    return {{.name = kSpanPositions,
             .type = {DType::kI32, {capacity.samples, kColumns}},
             .target = {.names = {"start_positions", "end_positions"}}}};
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    const ValueId rows = builder.input(input::kRows);
    const ValueId hidden = cast(builder.graph(), "rows.cast", encoded.hidden, builder.wide_dtype(), rows);
    const ValueId logits =
        append_classifier(builder, form_, {.rows = hidden, .keys = builder.input(input::kRowKeys), .row_count = rows});
    const ValueId loss =
        builder.graph().add_node({.op = Op::kSpanCrossEntropy,
                                  .name = "loss",
                                  .inputs = {logits, builder.input(kSpanPositions), builder.input(input::kSampleOffsets),
                                             builder.input(input::kLossScale)},
                                  .row_count = rows})[0];
    return {.loss = loss, .logits = logits};
  }

 private:
  ClassifierForm form_;
};

}  // namespace

ModelDefinition question_answering(std::shared_ptr<const Encoder> encoder) {
  const auto head = std::make_shared<SpanHead>(encoder->span_classifier());
  return {std::move(encoder), head};
}

}  // namespace plimsoll
