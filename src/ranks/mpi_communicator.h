// Ranks that an MPI launcher has started, connected by MPI. MPI itself is a library beside the program that is loaded
// here (mpi/part.h), so that the program runs where there is none.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "ranks/communicator.h"
#include "ranks/launcher.h"

namespace plimsoll {

struct MpiOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // a rank that is silent for longer has failed
  // The signal that asks this process to end; 0: none. Whoever waits for a silent rank then does so for a moment only.
  std::function<int()> end_signal = [] { return 0; };
};

// Starts MPI and connects to every rank, so that nothing is allocated when messages flow. Throws EnvironmentError if
// the library is missing or of another kind than the launcher's.
std::unique_ptr<Communicator> connect_by_mpi(const Launch& launch, const MpiOptions& options);

}  // namespace plimsoll
