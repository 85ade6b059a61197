// A sweep over budgets for people: a table in 80 columns, and an SVG picture of it.
#pragma once

#include <span>
#include <string>

#include "fit/fit.h"

namespace plimsoll {

// Pages a second of a plan, by its estimate.
double pages_per_second(const PlanSummary& plan, std::int64_t train_batch_size);

// "1 x 8, 80.4 MiB again, two passes": micro-batch x number, and what else was pulled.
std::string levers_text(const PlanSummary& plan);

std::string sweep_table(std::span<const PlanSummary> plans, std::int64_t train_batch_size);
// Budget to the right, pages a second upwards; one point a plan. `plans` is not empty.
std::string sweep_svg(std::span<const PlanSummary> plans, std::int64_t train_batch_size);

}  // namespace plimsoll
