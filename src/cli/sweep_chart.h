// A sweep over budgets for people: a table in 80 columns, and an SVG picture of it.
#pragma once

#include <span>
#include <string>

#include "fit/fit.h"

namespace plimsoll {

// Pages a second of a plan, by its estimate.
double pages_per_second(const RunPlan& plan, std::int64_t train_batch_size);

std::string sweep_table(std::span<const RunPlan> plans, std::int64_t train_batch_size);
// Budget to the right, pages a second upwards; one point a plan. `plans` is not empty.
std::string sweep_svg(std::span<const RunPlan> plans, std::int64_t train_batch_size);

}  // namespace plimsoll
