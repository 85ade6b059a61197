// Which rows of the word embedding a run needs in memory: only those of the data's tokens. No page looks up another, so
// its gradient is 0, and all that AdamW does to it is to multiply it by the weight decay.
#pragma once

#include "fit/fit.h"

namespace plimsoll {

// Returns whether memory may lack the rows of tokens that the data does not have. A head that scores every token reads
// them all, Adafactor compares each row with the others, and AdamW without an epsilon makes NaN of a weight without
// gradient, as in torch. `optimizer` is nullptr if nothing trains.
bool may_lack_word_rows(const ModelDefinition& model, const ModelOptions& options, const OptimizerOptions* optimizer);

// Gives the request all rows if it can no longer do without some, after one of its options has changed.
void require_word_rows(FitRequest& request);

}  // namespace plimsoll
