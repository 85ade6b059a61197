// What signals mean to a run that can save itself.
//
//   Interrupt& interrupt = interrupt_on_signals();
//   trainer.run(resume, interrupt);
#pragma once

#include "base/interrupt.h"

namespace plimsoll {

// From now on SIGUSR1 asks the run to save and go on, once there is something to save.
void save_on_signal();
// From now on SIGINT, SIGTERM, SIGHUP (unless it is ignored, as nohup does) and SIGXCPU ask the run to save and end,
// too. A second signal that asks for the end gets it at once; SIGXCPU, which the kernel repeats every second, does not.
Interrupt& interrupt_on_signals();

}  // namespace plimsoll
