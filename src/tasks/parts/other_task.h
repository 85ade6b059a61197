// Data of one task that is read for another one: a page without targets often has the keys of the intended task.
//
//   problem.remedy = remedy_with_task(page, "label the page, or omit it");
#pragma once

#include <string>

#include "data/page.h"

namespace plimsoll {

// Returns what to do about a page without targets: pass the task that reads its other keys, or `otherwise`.
std::string remedy_with_task(const Page& page, std::string otherwise);

}  // namespace plimsoll
