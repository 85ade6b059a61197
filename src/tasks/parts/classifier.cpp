#include "tasks/parts/classifier.h"

#include <string>
#include <utility>

#include "graph/build.h"

namespace plimsoll {
namespace {

std::string last_layer(const ClassifierForm& form) { return form.mlp ? form.name + ".out_proj" : form.name; }

ValueId tanh_of(ModelBuilder& builder, const std::string& name, ValueId x, ValueId rows) {
  return add_single(builder.graph(), {.op = Op::kTanh, .name = name, .inputs = {x}, .row_count = rows});
}

}  // namespace

std::vector<ParameterSpec> classifier_specs(const ClassifierForm& form, std::int64_t hidden_size,
                                            std::int64_t outputs) {
  constexpr auto kHead = ParameterSpec::Part::kHead;
  std::vector<ParameterSpec> specs;
  if (!form.pooler.empty()) {
    add_linear(specs, form.pooler, hidden_size, hidden_size, kHead);
    for (ParameterSpec& spec : specs) spec.in_base = true;
  }
  if (form.mlp) add_linear(specs, form.name + ".dense", hidden_size, hidden_size, kHead);
  add_linear(specs, last_layer(form), outputs, hidden_size, kHead);
  if (!form.bias) specs.pop_back();
  for (ParameterSpec& spec : specs) spec.normal_std = form.initializer_range;
  return specs;
}

std::vector<InputSpec> sample_row_inputs(const ClassifierForm& form, const Encoder& encoder,
                                         const ModelCapacity& capacity) {
  using Full = InputSpec::Full;
  const std::int64_t samples = capacity.samples;
  const auto ints = [](std::string_view name, Shape shape, Full full = Full::kZeros, std::int64_t count = 0) {
    return InputSpec{.name = std::string(name), .type = {DType::kI32, shape}, .full = full, .count = count};
  };
  return {ints(form.last_row ? input::kLastRows : input::kFirstRows, {samples}),
          ints(form.last_row ? input::kLastRowOf : input::kFirstRowOf, {encoder.rows(capacity)}),
          ints(input::kSampleKeys, {samples, 2}), ints(input::kSamples, {1}, Full::kCount, samples)};
}

ValueId append_classifier(ModelBuilder& builder, const ClassifierForm& form, const ClassifierRows& input) {
  const ValueId keys = input.keys, rows = input.row_count;
  ValueId x = input.rows;
  if (!form.pooler.empty()) x = tanh_of(builder, form.pooler + ".tanh", builder.dense(form.pooler, x, rows), rows);
  x = builder.drop("dropout", x, form.dropout, keys, rows);
  if (form.mlp) {
    x = builder.drop(form.name + ".dropout", x, form.inner_dropout, keys, rows);
    x = tanh_of(builder, form.name + ".tanh", builder.dense(form.name + ".dense", x, rows), rows);
    x = builder.drop(form.name + ".dropout2", x, form.inner_dropout, keys, rows);
  }
  return builder.dense(last_layer(form), x, rows);
}

std::vector<InputSpec> class_loss_inputs(const LossOptions& loss) {
  if (loss.class_weights.empty()) return {};
  return {{.name = std::string(input::kClassWeights),
           .type = {DType::kF32, {static_cast<std::int64_t>(loss.class_weights.size())}},
           .constants = loss.class_weights}};
}

ValueId append_class_loss(ModelBuilder& builder, const LossOptions& loss, ValueId logits, ValueId labels,
                          ValueId row_count) {
  std::vector<ValueId> inputs = {logits, labels, builder.input(input::kLossScale)};
  if (!loss.class_weights.empty()) inputs.push_back(builder.input(input::kClassWeights));
  return builder.graph().add_node(
      {.op = Op::kCrossEntropy,
       .name = "loss",
       .attributes = CrossEntropyAttributes{.label_smoothing = loss.label_smoothing, .focal_gamma = loss.focal_gamma},
       .inputs = std::move(inputs),
       .row_count = row_count})[0];
}

}  // namespace plimsoll
