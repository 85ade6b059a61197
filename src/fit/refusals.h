// Refusals: the errors of a search that finds no plan which fits, with what the run needs and what would make it fit.
#pragma once

#include "fit/fit.h"

namespace plimsoll {

// For a host budget that is too small, whatever is planned on the device. `least` needs the least of the host's memory.
BudgetError host_too_small(const PlanSummary& least);

// For a budget of the memory of the device that computes. `smallest` is the smallest plan of the run as requested; the
// remedies are planned here, which takes as long as many searches.
BudgetTooSmall too_small(const FitRequest& request, const PlanSummary& smallest, Backend& backend);

}  // namespace plimsoll
