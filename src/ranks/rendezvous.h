// Rendezvous: where the ranks of a run that no MPI connects find each other, by TCP. Rank 0 listens at an address that
// all know; the others come to it, and get to know where each one listens. Strangers are sent away: whoever speaks
// another protocol, or belongs to another run.
//
//   const Rendezvous place = find_rendezvous("");            // MASTER_ADDR, MASTER_PORT
//   std::vector<Meeting> all = meet(launch, place, {});      // two connections with each other rank
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ranks/launcher.h"

namespace plimsoll {

// A socket that is closed with the object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

struct Rendezvous {
  std::string host;
  int port = 0;
  std::string from{};  // where it was named

  std::string text() const;  // "HOST:PORT"
};

// Reads "HOST:PORT", or "[ADDRESS]:PORT" for IPv6. Without it, the host is MASTER_ADDR and the port the one behind
// MASTER_PORT, which torchrun itself listens at. Throws UsageError if it is none, or if neither is given.
Rendezvous find_rendezvous(const std::string& typed, const ReadVariable& read = environment_variable);

struct MeetingOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);
  std::string run{};  // a text that all ranks of a run have, and no other run
};

// What a rank has of another.
struct Meeting {
  std::string host;  // the name of its machine
  // For messages, and for what must not wait behind them: that a rank has failed, or ends. None with itself.
  Socket messages, signals;
};

// Connects every two ranks; all call it. Throws EnvironmentError that names who is missing after the timeout, an
// address that is in use or is not found, and a peer that speaks another protocol.
std::vector<Meeting> meet(const Launch& launch, const Rendezvous& place, const MeetingOptions& options);

}  // namespace plimsoll
