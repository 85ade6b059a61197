// `plimsoll plan --explain` for people, in 80 columns of plain text that can be pasted anywhere, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "fit/explanation.h"

namespace plimsoll {

// Returns "1,234,567", which cannot be misread.
std::string grouped_digits(std::size_t number);

std::string explain_text(const FitRequest& request, const PlanSummary& run, const Explanation& explanation,
                         const std::string& speed = {});
nlohmann::json explain_json(const FitRequest& request, const Explanation& explanation);

}  // namespace plimsoll
