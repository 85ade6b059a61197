// The plan of a run of several ranks: all run the same programs, each with its own part of the bytes, and none begins
// unless every rank's plan fits its budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fit/fit.h"
#include "ranks/communicator.h"

namespace plimsoll {

// Rank 0 chooses as `choose` does (fit(), or a form of it); the others plan with the same levers. If a rank needs more
// than its budget, because its process or its share is larger, rank 0 chooses again with a budget that is smaller by
// the difference. Throws on every rank what rank 0's choice throws, or BudgetError naming the rank for which no choice
// fits. Changes the request to the one that was answered.
RunPlan fit_on_ranks(FitRequest& request, Backend& backend, Communicator& ranks,
                     const std::function<RunPlan(FitRequest&)>& choose);

// Chooses the lowest stage of ZeRO that fits, if the request pins none, because it exchanges least: by `attempt`, and
// the last stage by `choose`, which throws if that does not fit either.
RunPlan choose_stage(FitRequest& request, const std::function<std::optional<RunPlan>(FitRequest&)>& attempt,
                     const std::function<RunPlan(FitRequest&)>& choose);

// Plans one rank of a run without its other ranks, for a machine that is not available: the rank that owns most.
// `choose` is as above.
RunPlan fit_neediest_rank(FitRequest& request, const std::function<RunPlan(FitRequest&)>& choose);

// Returns the predicted peak of every rank of that plan, from estimates; ranks that own equally much have the same
// peak.
std::vector<std::size_t> peaks_of_ranks(const FitRequest& request, const PlanSummary& plan, Backend& backend);

// Returns how many elements of the divided parameters a rank owns.
std::int64_t owned_elements(const Shards& shards, int rank);

}  // namespace plimsoll
