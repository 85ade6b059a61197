// A plan as plan.json holds it, and as the commands print it for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "fit/fit.h"

namespace plimsoll {

// A plan that cannot run has no programs.
nlohmann::json plan_json(const PlanSummary& plan, std::span<const PlannedProgram> planned = {});

}  // namespace plimsoll
