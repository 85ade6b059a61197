// Answers to questions about a page: spans of its words, or none.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& question_answering_task();

}  // namespace plimsoll
