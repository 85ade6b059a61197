// Ranks that an MPI launcher has started, connected by MPI. MPI itself is in a separate library that is loaded here
// (mpi/part.h), so that the program also runs without it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "ranks/communicator.h"
#include "ranks/launcher.h"

namespace plimsoll {

struct MpiOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // a rank that is silent for longer has failed
  // The signal that asks this process to end; 0: none. A wait for a silent rank then lasts only a moment.
  std::function<int()> end_signal = [] { return 0; };
};

// Starts MPI and connects to every rank, so that nothing is allocated when messages flow. Throws EnvironmentError if
// the library is missing or of another kind than the launcher's.
std::unique_ptr<Communicator> connect_by_mpi(const Launch& launch, const MpiOptions& options);

}  // namespace plimsoll
