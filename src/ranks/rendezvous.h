// Rendezvous: how the ranks of a run without MPI find each other, by TCP. Rank 0 listens at an address that all know;
// the others connect to it, and learn where each rank listens. Peers that speak another protocol, or belong to another
// run, are refused.
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
  std::string from{};  // the option or variable that named it

  std::string text() const;  // "HOST:PORT"
};

// Reads "HOST:PORT", or "[ADDRESS]:PORT" for IPv6. Without it, the host is MASTER_ADDR and the port is MASTER_PORT + 1,
// because torchrun itself listens at MASTER_PORT. Throws UsageError if the text is not an address, or if neither is
// given.
Rendezvous find_rendezvous(const std::string& typed, const ReadVariable& read = environment_variable);

struct MeetingOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(600);
  std::string run{};  // a text that only the ranks of this run have
};

// What a rank knows of another, and its connections.
struct Meeting {
  std::string host;  // the name of its machine
  // For messages, and for signals that must not wait behind them: that a rank has failed, or ends. Not connected for
  // the rank itself.
  Socket messages, signals;
};

// Connects every two ranks; all ranks call it. Throws EnvironmentError naming the ranks that are missing after the
// timeout, an address that is in use or is not found, or a peer that speaks another protocol.
std::vector<Meeting> meet(const Launch& launch, const Rendezvous& place, const MeetingOptions& options);

}  // namespace plimsoll
