// Refusals: the errors of a search that finds no plan which fits, with what the run needs and what would make it fit.
#pragma once

#include "fit/fit.h"

namespace plimsoll {

// Makes the error for a host budget that is too small, whatever is planned on the device. `least` is the plan that
// needs the least host memory.
BudgetError host_too_small(const FitRequest& request, const PlanSummary& least);

// Makes the error for a budget of the memory of the device that computes. `smallest` is the smallest plan of the run as
// requested; the remedies are planned here, which takes as long as many searches.
BudgetTooSmall too_small(const FitRequest& request, const PlanSummary& smallest, Backend& backend);

}  // namespace plimsoll
