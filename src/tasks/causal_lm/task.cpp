#include "tasks/causal_lm/task.h"

#include "tasks/causal_lm/head.h"
#include "tasks/causal_lm/results.h"
#include "tasks/causal_lm/text.h"

namespace plimsoll {
namespace {

class CausalLanguageModel final : public Task {
 public:
  std::string_view name() const override { return "causal-lm"; }
  std::string_view architecture() const override { return "CausalLM"; }
  std::string_view adapter_type() const override { return "CAUSAL_LM"; }

  ModelDefinition model(std::shared_ptr<const Encoder> encoder, const TaskConfig& config) const override {
    return causal_language_model(std::move(encoder), config.loss);
  }
  bool has_classes(const TaskConfig&) const override { return true; }  // the tokens
  bool weighs_classes(const TaskConfig&) const override { return false; }

  std::optional<ModelDefinition> next_token_model(std::shared_ptr<const Encoder> encoder) const override {
    return plimsoll::next_token_model(std::move(encoder));
  }

  const TargetReader* reader() const override { return &text_reader(); }
  bool asks() const override { return true; }
  std::string_view target_name() const override { return "text"; }
  std::vector<std::string_view> keys() const override { return {"text", "prompt", "completion", "messages"}; }
  SeenTargets seen_in(const PageSource&, const TaskConfig& config) const override {
    return {.config = config};  // whose labels are not used
  }
  std::optional<Problem> find_unknown_label(const PageSource&, const LabelSet&) const override { return std::nullopt; }
  std::shared_ptr<const Targets> targets(const TaskConfig&, bool) const override { return next_token_targets(); }

  std::vector<std::string> metrics(const TaskConfig&) const override { return {"perplexity", "accuracy"}; }
  std::unique_ptr<Scorer> scorer(const TaskConfig&, const Dataset&) const override { return token_scorer(); }
  std::unique_ptr<Predictions> predictions(const TaskConfig&, const PredictionOptions&) const override {
    return text_predictions();
  }
};

}  // namespace

const Task& causal_lm_task() {
  static const CausalLanguageModel task;
  return task;
}

}  // namespace plimsoll
