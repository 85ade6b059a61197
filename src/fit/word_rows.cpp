#include "fit/word_rows.h"

#include <algorithm>

namespace plimsoll {

bool may_lack_word_rows(const ModelDefinition& model, const ModelOptions& options, const OptimizerOptions* optimizer) {
  ModelOptions whole = options;
  whole.word_rows = nullptr;
  const std::vector<ParameterSpec> specs = model.specs(whole);
  const auto table = std::ranges::find(specs, ParameterSpec::Part::kWordEmbedding, &ParameterSpec::part);
  if (table == specs.end() || table->scores_tokens || table->transposed) return false;
  if (optimizer == nullptr || !table->trains) return true;
  return optimizer->kind != OptimizerKind::kAdafactor && static_cast<float>(optimizer->adamw.eps) > 0;
}

void require_word_rows(FitRequest& request) {
  ModelOptions& model = request.step.model;
  if (model.word_rows == nullptr) return;
  const OptimizerOptions* const optimizer = request.trains ? &request.step.optimizer : nullptr;
  if (!may_lack_word_rows(request.step.definition, model, optimizer)) model.word_rows = nullptr;
}

}  // namespace plimsoll
