// Links between the entities of a page: which value belongs to which key.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& relation_extraction_task();

}  // namespace plimsoll
