// A plan as plan.json holds it, and as the commands print it for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "fit/fit.h"

namespace plimsoll {

nlohmann::json plan_json(const RunPlan& plan);

}  // namespace plimsoll
