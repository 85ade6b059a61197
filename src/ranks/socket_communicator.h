// Ranks that are connected by TCP, if the launcher has no MPI: torchrun. Every two ranks have two connections: one for
// messages, and one to report at once that a rank has failed or has ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "ranks/communicator.h"
#include "ranks/launcher.h"
#include "ranks/rendezvous.h"

namespace plimsoll {

struct SocketOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // a rank that is silent for longer has failed
  // The signal that asks this process to end; 0: none. A wait for a silent rank then lasts only a moment.
  std::function<int()> end_signal = [] { return 0; };
  std::string run{};  // see MeetingOptions
};

// Connects to every rank. Throws like meet().
std::unique_ptr<Communicator> connect_by_sockets(const Launch& launch, const Rendezvous& place,
                                                 const SocketOptions& options);

}  // namespace plimsoll
