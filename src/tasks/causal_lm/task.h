// A language model: each token of a text is predicted from those before it.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& causal_lm_task();

}  // namespace plimsoll
