// The tasks, one row each: README.md in this folder says how to add one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace plimsoll {

std::span<const Task* const> all_tasks();
std::vector<std::string> task_names();

// Returns the task that a model's config names; token classification, with a new head, if it names none of ours.
const Task& task_of(const TaskConfig& config);
// Finds a task by its name or its architecture; nullptr if there is none.
const Task* find_task(std::string_view name);
// Throws UsageError, naming the nearest one, for an unknown name.
const Task& task_named(std::string_view name);

}  // namespace plimsoll
