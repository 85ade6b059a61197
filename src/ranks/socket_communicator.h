// Ranks that are connected by TCP, where a launcher brings no MPI: torchrun. Two connections join every two ranks: one
// for messages, one that says at once that a rank has failed or has ended.
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
  // The signal that asks this process to end; 0: none. Whoever waits for a silent rank then does so for a moment only.
  std::function<int()> end_signal = [] { return 0; };
  std::string run{};  // see MeetingOptions
};

// Connects to every rank. Throws as meet() does.
std::unique_ptr<Communicator> connect_by_sockets(const Launch& launch, const Rendezvous& place,
                                                 const SocketOptions& options);

}  // namespace plimsoll
