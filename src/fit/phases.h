// Plans of a command that runs several of them, one after another: all are made before the first one runs, so that
// none is refused after hours, and the budget that a refusal names is enough for all.
//
//   check_phases({[&] { fit(weighing, backend); }, [&] { fit(training, backend); }});
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>

#include "fit/fit.h"

namespace plimsoll {

// Calls each of `plans`, even after one throws BudgetTooSmall; then throws that of the largest budget, if any did.
// What else they throw ends it at once.
void check_phases(std::initializer_list<std::function<void()>> plans);

// Returns what the process held when this was planned.
std::size_t held_bytes(const PlanSummary& plan);
// Lets a phase that is planned again count no more than that: what an earlier phase leaves behind, such as the code of
// libraries, came out of its reserve, and the next phase does not need it twice.
void hold_at_most(FitRequest& request, std::size_t held_bytes);

}  // namespace plimsoll
