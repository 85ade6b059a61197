// Interrupt: asks a run to save, and then to end or to continue. A thread that waits for signals sets it; code that
// computes checks it between two pieces of work.
//
//   Interrupt interrupt;
//   interrupt.request_end(SIGTERM);          // in any thread
//   if (!program.run(interrupt)) save();     // the run gave up half-way, and left no parameter changed
//
// Invariant: reading it takes no lock, and setting it is safe in a signal handler, too.
#pragma once

#include <atomic>

namespace plimsoll {

class Interrupt {
 public:
  // Asks the run to save and end. Only the first signal counts.
  void request_end(int signal) {
    int none = 0;
    signal_.compare_exchange_strong(none, signal);
  }
  // Asks the run to save and continue.
  void request_save() { save_.store(true); }

  // True if unfinished work should be dropped now.
  bool pending() const { return end_signal() != 0 || (save_.load(std::memory_order_relaxed) && !saved_.load()); }
  // The signal that asked for the end; 0: none did.
  int end_signal() const { return signal_.load(std::memory_order_relaxed); }

  // Tells whether all finished work is saved already. A request to save then waits until there is more to save, so that
  // a run under frequent requests still makes progress.
  void set_saved(bool saved) { saved_.store(saved); }
  // Forgets a request to save once it has been served.
  void clear_save() { save_.store(false); }

 private:
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
  std::atomic<int> signal_{0};
  std::atomic<bool> save_{false}, saved_{false};
};

}  // namespace plimsoll
