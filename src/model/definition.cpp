#include "model/definition.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/builder.h"
#include "model/trained_parts.h"

namespace plimsoll {

std::string Encoder::model_class(std::string_view head) const { return fmt::format("{}For{}", class_name(), head); }

LanguageHeadForm Encoder::language_head() const {
  throw UsageError({.what = "the family has no head that predicts the next token",
                    .where = fmt::format("a model of type '{}'", model_type()),
                    .found = "a task that needs it",
                    .allowed = "a decoder",
                    .remedy = "train a decoder for this task, or this model for another one"});
}

ModelDefinition::ModelDefinition(std::shared_ptr<const Encoder> encoder, std::shared_ptr<const Head> head)
    : encoder_(std::move(encoder)), head_(std::move(head)) {}

std::vector<ParameterSpec> ModelDefinition::specs(const ModelOptions& options) const {
  std::vector<ParameterSpec> specs = encoder_->specs(options);
  std::ranges::move(head_->specs(encoder_->facts().hidden_size), std::back_inserter(specs));
  for (ParameterSpec& spec : specs) spec.scores_tokens = spec.name == head_->scoring_weight();
  const LoraOptions& lora = options.lora;
  if (lora.enabled()) {
    for (ParameterSpec& spec : specs) {
      spec.saved = !spec.is_head() && lora.saves(spec.name);
      spec.trains = spec.is_head() || (spec.saved && spec.trains);
    }
    for (const LinearMap& map : encoder_->linear_maps()) {
      if (!lora.modules.contains(map.name)) continue;
      const std::int64_t rank = lora.rank_of(map.name);
      add_spec(specs, lora_a_name(map.name), {rank, map.in}, ParameterSpec::Init::kKaimingUniform,
               ParameterSpec::Part::kAdapter);
      add_spec(specs, lora_b_name(map.name), {map.out, rank}, ParameterSpec::Init::kZeros,
               ParameterSpec::Part::kAdapter);
      if (lora.dora) {
        // PEFT: the norms of W + scale B A, where B begins as 0.
        add_spec(specs, magnitude_name(map.name), {map.out}, ParameterSpec::Init::kRowNorms,
                 ParameterSpec::Part::kAdapter);
        specs.back().norms_of = map.name + ".weight";
      }
      const auto base = std::ranges::find(specs, map.name + ".weight", &ParameterSpec::name);
      check(base != specs.end(), "a linear map has a weight");
      const std::int64_t layer = base->layer;
      for (std::size_t i = specs.size() - (lora.dora ? 3 : 2); i < specs.size(); ++i) specs[i].layer = layer;
    }
  }
  if (!options.masked_maps.empty()) {
    for (ParameterSpec& spec : specs) spec.trains = false;
    for (const LinearMap& map : encoder_->linear_maps()) {
      if (!options.masked_maps.contains(map.name)) continue;
      add_spec(specs, mask_name(map.name), {map.in}, ParameterSpec::Init::kOnes, ParameterSpec::Part::kMask);
    }
  }
  for (ParameterSpec& spec : specs) {
    const bool frozen = std::ranges::any_of(
        options.freeze, [&](const std::string& pattern) { return matches_pattern(pattern, spec.name); });
    spec.trains = spec.trains && !frozen;
    if (options.word_rows == nullptr || spec.part != ParameterSpec::Part::kWordEmbedding) continue;
    check(!spec.scores_tokens && !spec.transposed, "only a table that is looked up may lack rows");
    spec.rows = options.word_rows;
    spec.shape = {std::ssize(*spec.rows), spec.file_shape[1]};
  }
  return specs;
}

std::vector<InputSpec> ModelDefinition::inputs(const ModelCapacity& capacity, DType dtype) const {
  const ModelCapacity samples = of_encoder(capacity);
  std::vector<InputSpec> inputs = encoder_->inputs(samples, wide(dtype));
  std::ranges::move(head_->inputs(samples), std::back_inserter(inputs));
  return inputs;
}

ModelCapacity ModelDefinition::of_encoder(const ModelCapacity& capacity) const {
  return {.samples = capacity.samples * head_->samples_per_example(), .text_rows = capacity.text_rows};
}

ModelGraph ModelDefinition::build(const ModelCapacity& capacity, bool dropout, const ModelOptions& options,
                                  DType dtype) const {
  ModelBuilder builder(*this, capacity, dropout, options, dtype);
  const Encoded encoded = encoder_->encode(builder);
  const HeadValues values = head_->append(builder, encoded);
  if (values.loss != kNoValue) builder.graph().mark_output(values.loss);
  return {.graph = std::move(builder.graph()),
          .loss = values.loss,
          .logits = values.logits,
          .trained = builder.take_trained()};
}

}  // namespace plimsoll
