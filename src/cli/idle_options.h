// Options that were passed and have no effect, because of other options or the task.
//
//   tell_idle_options(options, bundle, false);   // "--eval-delay changes nothing without --eval-data"
#pragma once

#include "bundle/model_bundle.h"
#include "cli/run_options.h"

namespace plimsoll {

// Warns of each one whose value is not its default: scripts often pass all that they know. Those that contradict others
// are refused instead (RunOptions::resolve). `many`: runs with several processes are planned, whatever the options say.
void tell_idle_options(const RunOptions& options, const ModelBundle& bundle, bool many);

}  // namespace plimsoll
