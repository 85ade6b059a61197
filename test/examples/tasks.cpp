// Compiles the examples of src/tasks.
#include "tasks/tasks.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tasks/parts/classifier.h"
#include "tasks/parts/fields.h"
#include "tasks/parts/judgement.h"
#include "tasks/parts/other_task.h"
#include "tasks/parts/word_range.h"
#include "tasks/relation_extraction/links.h"
#include "tasks/token_classification/metrics.h"
#include "tasks/token_classification/words.h"

namespace plimsoll::examples {

void of_classifier(const ClassifierForm& form, std::int64_t hidden_size, std::int64_t labels, ModelBuilder& builder,
                   ValueId first, ValueId keys, ValueId samples) {
#include "tasks/parts/classifier.h.inc"
}

void of_fields(nlohmann::json& object, const Page& page) {
#include "tasks/parts/fields.h.inc"
}

void of_judgement(Scores& scores) {
#include "tasks/parts/judgement.h.inc"
}

void of_other_task(Problem& problem, const Page& page) {
#include "tasks/parts/other_task.h.inc"
}

void use(std::size_t begin, std::size_t end);
void of_word_range(const nlohmann::json& value, const Page& page) {
#include "tasks/parts/word_range.h.inc"
}

void use(std::size_t from, std::size_t to, double probability);
void of_links(const TaskConfig& config, const Batch& batch, std::int64_t sample, const TensorView& logits,
              const Page& page) {
#include "tasks/relation_extraction/links.h.inc"
}

struct TaskParts {
  TaskConfig task;
};
void of_task(const TaskParts& config, const std::shared_ptr<const Encoder>& encoder, const Dataset& held_out) {
#include "tasks/task.h.inc"
}

void of_metrics(const std::vector<std::int32_t>& gold_ids, const std::vector<std::int32_t>& predicted_ids) {
#include "tasks/token_classification/metrics.h.inc"
}

void use(const WordPredictions&);
void of_words(const Batch& batch, std::int64_t sample, const TensorView& logits) {
#include "tasks/token_classification/words.h.inc"
}

}  // namespace plimsoll::examples
