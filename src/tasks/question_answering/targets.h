// The targets of a page's windows for each of its questions.
#pragma once

#include <memory>

#include "data/targets.h"

namespace plimsoll {

// `with_answers` is false for prediction, which only asks the questions. The targets of an example are the rows of its
// answer's first and last token, or twice the row of its first token if the window does not hold the whole answer or
// the page has none (as in `transformers`' run_qa). If there are several answers, the first counts.
std::shared_ptr<const Targets> answer_targets(bool with_answers);

}  // namespace plimsoll
