#include "tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "tasks/causal_lm/task.h"
#include "tasks/page_pairs/task.h"
#include "tasks/question_answering/task.h"
#include "tasks/relation_extraction/task.h"
#include "tasks/sequence_classification/task.h"
#include "tasks/token_classification/task.h"

namespace plimsoll {

std::span<const Task* const> all_tasks() {
  static const std::array<const Task*, 8> tasks = {&token_classification_task(), &sequence_classification_task(),
                                                   &question_answering_task(),   &relation_extraction_task(),
                                                   &pair_classification_task(),  &pair_ranking_task(),
                                                   &pair_similarity_task(),      &causal_lm_task()};
  return tasks;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) names.emplace_back(task->name());
  return names;
}

const Task* find_task(std::string_view name) {
  const auto tasks = all_tasks();
  const auto found = std::ranges::find_if(
      tasks, [name](const Task* task) { return task->name() == name || task->architecture() == name; });
  return found == tasks.end() ? nullptr : *found;
}

const Task& task_of(const TaskConfig& config) {
  const Task* const task = find_task(config.architecture);
  return task != nullptr ? *task : token_classification_task();
}

const Task& task_named(std::string_view name) {
  if (const Task* const task = find_task(name)) return *task;
  // The names of these tasks in pipelines of `transformers`.
  const std::string near = name == "text-classification" ? std::string(sequence_classification_task().name())
                           : name == "text-generation"   ? std::string(causal_lm_task().name())
                           : name == "ner"               ? std::string(token_classification_task().name())
                                                         : nearest(std::string(name), task_names());
  throw UsageError({.what = "no such task",
                    .where = "--task",
                    .found = std::string(name),
                    .allowed = fmt::format("{}", fmt::join(task_names(), ", ")),
                    .remedy = near.empty() ? "choose one of these" : fmt::format("did you mean {}?", near)});
}

}  // namespace plimsoll
