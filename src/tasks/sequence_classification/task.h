// The class of a page: one label, several, or a number (regression).
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& sequence_classification_task();

}  // namespace plimsoll
