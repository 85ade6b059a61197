// The tasks that read pairs of pages: a class of the pair, the better page, similarity.
#pragma once

#include "tasks/task.h"

namespace plimsoll {

const Task& pair_classification_task();
const Task& pair_ranking_task();
const Task& pair_similarity_task();

}  // namespace plimsoll
