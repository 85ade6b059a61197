// Ranks that are processes of their own, forked from the test and connected by TCP: for what a process has only once,
// such as the emulated GPU. Call it before the test starts threads. What a rank's body returns comes back to the test.
//
//   const std::vector<std::string> said = fork_ranks(2, [](Communicator& ranks) { return std::to_string(ranks.rank());
//   });
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ranks/communicator.h"
#include "ranks/socket_communicator.h"

namespace plimsoll::test {

// A port of this machine that is free now.
inline int free_port() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (::bind(socket.file(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw std::runtime_error("no port is free");
  }
  return ntohs(address.sin_port);
}

// A process that runs a function; what that returns, or the text of what it throws behind "error: ", comes back.
class Forked {
 public:
  explicit Forked(const std::function<std::string()>& body) {
    int pipe[2];
    if (::pipe(pipe) != 0) throw std::runtime_error("no pipe");
    std::fflush(nullptr);
    id_ = ::fork();
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(pipe[0]);
      std::string text;
      try {
        text = body();
      } catch (const Error& error) {
        text = "error: " + error.problem().what + " | " + error.problem().where + " | " + error.problem().found;
      } catch (const std::exception& error) {
        text = std::string("error: ") + error.what();
      }
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t count = ::write(pipe[1], text.data() + at, text.size() - at);
        if (count <= 0) break;
        at += static_cast<std::size_t>(count);
      }
      std::fflush(nullptr);
      ::_exit(0);
    }
    ::close(pipe[1]);
    out_ = pipe[0];
  }
  Forked(Forked&& other) noexcept : id_(std::exchange(other.id_, -1)), out_(std::exchange(other.out_, -1)) {}
  Forked& operator=(Forked&&) = delete;
  ~Forked() {
    if (out_ >= 0) ::close(out_);
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

  pid_t id() const { return id_; }
  // "killed" if it has not come to its end.
  std::string wait(std::chrono::seconds patience = std::chrono::seconds(600)) {
    std::string text;
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      pollfd waits{.fd = out_, .events = POLLIN, .revents = 0};
      if (::poll(&waits, 1, 100) == 0) {
        if (std::chrono::steady_clock::now() < end) continue;
        ::kill(id_, SIGKILL);
      }
      char piece[4096];
      const ssize_t count = ::read(out_, piece, sizeof piece);
      if (count <= 0) break;
      text.append(piece, static_cast<std::size_t>(count));
    }
    int status = 0;
    ::waitpid(std::exchange(id_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "killed";
  }

 private:
  pid_t id_ = -1;
  int out_ = -1;
};

using RankBody = std::function<std::string(Communicator& ranks)>;

inline std::vector<Forked> start_ranks(int count, const RankBody& body,
                                       std::chrono::milliseconds timeout = std::chrono::seconds(120)) {
  const Rendezvous place{.host = "127.0.0.1", .port = free_port(), .from = "the test"};
  std::vector<Forked> all;
  for (int rank = 0; rank < count; ++rank) {
    all.emplace_back([&, rank] {
      const Launch launch{
          .launcher = Launcher::kTorchrun, .rank = rank, .size = count, .local_rank = rank, .local_size = count};
      const auto ranks = connect_by_sockets(launch, place, {.timeout = timeout});
      try {
        return body(*ranks);
      } catch (const RankError&) {
        throw;
      } catch (const Error& error) {
        ranks->fail(error.problem(), error.exit_code());
        throw;
      } catch (const std::exception& error) {
        ranks->fail({.what = error.what()}, ExitCode::kInternal);
        throw;
      }
    });
  }
  return all;
}

inline std::vector<std::string> fork_ranks(int count, const RankBody& body) {
  std::vector<Forked> all = start_ranks(count, body);
  std::vector<std::string> said;
  for (Forked& each : all) said.push_back(each.wait());
  return said;
}

}  // namespace plimsoll::test
