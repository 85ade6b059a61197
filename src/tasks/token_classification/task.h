// Labels of words: mostly BIO tags of fields, scored as entities.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& token_classification_task();

}  // namespace plimsoll
