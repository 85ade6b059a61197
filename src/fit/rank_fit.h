// The plan of a run of several ranks: all run the same programs, each with its own part of the bytes, and none begins
// unless every rank's plan fits its budget.
#pragma once

#include <functional>
#include <optional>

#include "fit/fit.h"
#include "ranks/communicator.h"

namespace plimsoll {

// Rank 0 chooses as `choose` does (fit(), or a form of it); the others plan with the same levers. If a rank needs more
// than its budget, because its process or its share is larger, rank 0 chooses again with as much less. Throws on every
// rank what rank 0's choice throws, or BudgetError that names the rank for which no choice fits. Changes the request to
// the one that was answered.
RunPlan fit_on_ranks(FitRequest& request, Backend& backend, Communicator& ranks,
                     const std::function<RunPlan(FitRequest&)>& choose);

// Chooses the lowest stage of ZeRO that fits, if the request pins none, because it exchanges least: by `attempt`, and
// the last stage by `choose`, which throws if that does not fit either.
RunPlan choose_stage(FitRequest& request, const std::function<std::optional<RunPlan>(FitRequest&)>& attempt,
                     const std::function<RunPlan(FitRequest&)>& choose);

}  // namespace plimsoll
