// What windows of a page are trained towards for each of its questions.
#pragma once

#include <memory>

#include "data/targets.h"

namespace plimsoll {

// `with_answers`: false for prediction, which asks the questions alone. The targets of an example are the rows of its
// answer's first and last token; those of its first token where the window does not hold the whole answer, or the page
// has none (as `transformers`' run_qa trains). Of several answers, the first.
std::shared_ptr<const Targets> answer_targets(bool with_answers);

}  // namespace plimsoll
