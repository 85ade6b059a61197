#include "tasks/relation_extraction/head.h"

#include <string>

#include "graph/build.h"
#include "model/builder.h"
#include "tasks/parts/classifier.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kClasses = 2;  // C: no link, a link

constexpr const char* kLabelTable = "extractor.entity_emb";
constexpr const char* kBilinear = "extractor.rel_classifier.bilinear.weight";
constexpr const char* kLinearWeight = "extractor.rel_classifier.linear.weight";
constexpr const char* kLinearBias = "extractor.rel_classifier.linear.bias";

class LinkHead final : public Head {
 public:
  LinkHead(const Encoder& encoder, const TaskConfig& config)
      : dropout_(encoder.token_classifier(kClasses).dropout),
        std_(encoder.token_classifier(kClasses).initializer_range),
        labels_(config.num_labels()),
        entities_(config.max_entities),
        loss_(config.loss) {}

  std::vector<ParameterSpec> specs(std::int64_t hidden_size) const override {
    constexpr auto kHead = ParameterSpec::Part::kHead;
    using Init = ParameterSpec::Init;
    std::vector<ParameterSpec> specs;
    const std::int64_t half = hidden_size / 2;  // P
    add_spec(specs, std::string(kLabelTable) + ".weight", {labels_, hidden_size}, Init::kNormal, kHead);
    for (const char* part : {"extractor.ffnn_head", "extractor.ffnn_tail"}) {
      add_linear(specs, std::string(part) + ".0", hidden_size, 2 * hidden_size, kHead);
      add_linear(specs, std::string(part) + ".3", half, hidden_size, kHead);
    }
    for (ParameterSpec& spec : specs) spec.normal_std = std_;
    // Initialized like nn.Bilinear, which is also uniform within 1 / sqrt(P).
    add_spec(specs, kBilinear, {kClasses * half, half}, Init::kKaimingUniform, kHead);
    specs.back().file_shape = {kClasses, half, half};
    add_spec(specs, kLinearWeight, {kClasses, 2 * half}, Init::kNormal, kHead);
    specs.back().normal_std = std_;
    add_spec(specs, kLinearBias, {kClasses}, Init::kZeros, kHead);
    return specs;
  }

  std::vector<InputSpec> inputs(const ModelCapacity& capacity) const override {
    using Kind = TargetForm::Kind;
    const std::int64_t rows = capacity.samples * entities_;  // M
    const auto target = [](const char* name, std::int64_t elements, Shape shape, Kind kind, std::int64_t limit) {
      return InputSpec{.name = name,
                       .type = {DType::kI32, {elements}},
                       .target = {.names = {name}, .shape = shape, .kind = kind, .limit = limit}};
    };
    return {target(kEntityTokens, rows, {entities_}, Kind::kRow, 0),
            target(kEntityLabels, rows, {entities_}, Kind::kIndex, labels_),
            target(kLinkLabels, rows * entities_, {entities_, entities_}, Kind::kValue, kClasses),
            {.name = std::string(input::kItemKeys), .type = {DType::kI32, {rows, 2}}}};
  }

  HeadValues append(ModelBuilder& builder, const Encoded& encoded) const override {
    Graph& graph = builder.graph();
    const ValueId states = cast(graph, "rows.cast", encoded.hidden, builder.wide_dtype(), kNoValue);
    // Two entities may begin at the same token, so their gradients are summed like those of a table's rows.
    ValueId entities = embedding(graph, "entities", states, builder.input(kEntityTokens),
                                 {.table_rows = graph.type(states).shape[0]}, kNoValue);
    entities = builder.drop("entities.dropout", entities, dropout_, builder.input(input::kItemKeys), kNoValue);
    const ValueId labels = builder.lookup(kLabelTable, builder.input(kEntityLabels), {.table_rows = labels_}, kNoValue);
    const ValueId both = concat_heads(graph, "entities.labelled", entities, labels, {}, kNoValue);
    const ValueId heads = network(builder, "extractor.ffnn_head", both);
    const ValueId tails = network(builder, "extractor.ffnn_tail", both);
    const ValueId turned =
        linear(graph, "extractor.rel_classifier.bilinear", tails, builder.parameter(kBilinear), kNoValue, kNoValue);
    const std::int64_t half = graph.type(heads).shape[1];
    const HeadsValues weights = split_heads(graph, "extractor.rel_classifier.parts", builder.parameter(kLinearWeight),
                                            {.first_size = half, .second_size = half}, kNoValue);
    const ValueId head_terms = linear(graph, "extractor.rel_classifier.of_heads", heads, weights.first,
                                      builder.parameter(kLinearBias), kNoValue);
    const ValueId tail_terms =
        linear(graph, "extractor.rel_classifier.of_tails", tails, weights.second, kNoValue, kNoValue);
    const ValueId logits = add_single(graph, {.op = Op::kPairScores,
                                              .name = "extractor.rel_classifier",
                                              .attributes = PairAttributes{entities_},
                                              .inputs = {heads, turned, head_terms, tail_terms}});
    return {.loss = append_class_loss(builder, loss_, logits, builder.input(kLinkLabels), kNoValue), .logits = logits};
  }

 private:
  ValueId network(ModelBuilder& builder, const std::string& name, ValueId x) const {
    for (const char* layer : {".0", ".3"}) {
      x = builder.dense(name + layer, x, kNoValue);
      x = add_single(builder.graph(), {.op = Op::kRelu, .name = name + layer + ".relu", .inputs = {x}});
      x = builder.drop(name + layer + ".dropout", x, dropout_, builder.input(input::kItemKeys), kNoValue);
    }
    return x;
  }

  double dropout_, std_;
  std::int64_t labels_, entities_;  // E
  LossOptions loss_;
};

}  // namespace

ModelDefinition relation_extraction(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) {
  const auto head = std::make_shared<LinkHead>(*encoder, config);
  return {std::move(encoder), head};
}

}  // namespace plimsoll
