// The tasks, a row each: README.md in this folder says how to add one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace plimsoll {

std::span<const Task* const> all_tasks();
std::vector<std::string> task_names();

// The task that a model's config names; token classification for a config that names none of ours, whose head is then
// made new.
const Task& task_of(const TaskConfig& config);
// By its name or its architecture; nullptr: none has it.
const Task* find_task(std::string_view name);
// UsageError, naming the nearest, for a name that is none.
const Task& task_named(std::string_view name);

}  // namespace plimsoll
