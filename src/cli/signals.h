// What signals mean to a run that can save itself.
//
//   watch_signals();                              // before the process starts any other thread
//   Interrupt& interrupt = interrupt_on_signals();
//   trainer.run(resume, interrupt);
//
// Invariant: no signal is handled in a thread that computes; a separate thread waits for signals, and they are blocked
// in all others. oneDNN's products for AVX2 point the stack pointer into a buffer on the heap, so the kernel would
// write the frame of a handler over the heap below that buffer.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/interrupt.h"

namespace plimsoll {

// From now on SIGUSR1 asks the run to save and continue, once there is something to save. SIGINT, SIGTERM, SIGHUP and
// SIGXCPU end the process unless they are ignored, as they would without this, after its unfinished files are removed.
// Call it once, before any thread is started.
void watch_signals();
// Says what a command finishes before a signal ends it: the message names it.
enum class Finishes : std::uint8_t { kUpdate, kTexts };
// From now on SIGINT, SIGTERM, SIGHUP (unless it is ignored, as nohup does) and SIGXCPU ask the run to save and end.
// The same signal again ends the process at once; SIGXCPU, which the kernel repeats every second, does not.
Interrupt& interrupt_on_signals(Finishes what = Finishes::kUpdate);

// Removes this file or directory, whatever is in it, before a signal ends the process.
void remove_when_ended(const std::filesystem::path& path);

}  // namespace plimsoll
