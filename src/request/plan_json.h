// A plan in the form of plan.json, which the commands also print for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "fit/fit.h"

namespace plimsoll {

// A plan that cannot run has no programs.
nlohmann::json plan_json(const PlanSummary& plan, std::span<const PlannedProgram> planned = {});

}  // namespace plimsoll
