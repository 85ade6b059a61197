// Options that were passed and have no effect, because of other options or the task.
//
//   tell_idle_options(options, bundle);   // "--eval-delay changes nothing without --eval-data"
#pragma once

#include "bundle/model_bundle.h"
#include "cli/run_options.h"

namespace plimsoll {

// Warns of each one whose value is not its default: scripts often pass all that they know. Those that contradict others
// are refused instead (RunOptions::resolve).
void tell_idle_options(const RunOptions& options, const ModelBundle& bundle);

}  // namespace plimsoll
