// How faults of a page's JSON are shown and reported, for the readers of pages and of a task's keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/page.h"
#include "data/targets.h"

namespace plimsoll {

// Returns the value as JSON, cut after some 60 bytes, even if its text is not UTF-8.
std::string shown(const nlohmann::json& value);

// Adds the fault to the list, if there is one, so that the page continues; otherwise throws it.
void report(PageFaults* faults, PageError fault);

// Makes an error of kind "wrong-type"; `where` says which value of the page.
PageError wrong_type(const Page& page, const std::string& where, const nlohmann::json& value, std::string allowed);

}  // namespace plimsoll
