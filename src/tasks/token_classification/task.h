// Labels of words: BIO tags of fields, mostly, scored as entities.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& token_classification_task();

}  // namespace plimsoll
