#include "ranks/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 8> kMagic = {'P', 'L', 'I', 'M', 'R', 'A', 'N', 'K'};
constexpr std::uint32_t kProtocol = 1;
constexpr std::size_t kNameBytes = 256, kAddressBytes = 64;
// How long a peer may take for its first message.
constexpr std::chrono::seconds kPatienceForHello(20);
constexpr const char* kRemedyPort = "pass --rendezvous HOST:PORT with a free port of rank 0's machine, to all ranks";

// What a rank says first on each connection. All ranks run the same build on the same kind of processor.
struct Hello {
  std::array<char, 8> magic = kMagic;
  std::uint32_t protocol = kProtocol;
  std::int32_t rank = 0, size = 0;
  std::int32_t signals = 0;  // 1: the second connection
  std::int32_t port = 0;     // the port that it listens at
  std::int32_t refused = 0;  // in an answer: 1, and the reason in `host`
  std::array<char, kNameBytes> run{}, host{};
};
// Rank 0's answer about each rank.
struct Entry {
  std::array<char, kNameBytes> host{};
  std::array<char, kAddressBytes> address{};
  std::int32_t port = 0;
};

template <std::size_t kBytes>
void put(std::array<char, kBytes>& to, const std::string& text) {
  const std::size_t count = std::min(kBytes - 1, text.size());
  std::copy_n(text.data(), count, to.data());
  to[count] = '\0';
}

[[noreturn]] void throw_problem(const std::string& what, const Rendezvous& place, const std::string& found,
                                const std::string& allowed, const std::string& remedy) {
  throw EnvironmentError({.what = what,
                          .where = fmt::format("{} ({})", place.text(), place.from),
                          .found = found,
                          .allowed = allowed,
                          .remedy = remedy});
}

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count()));
}

bool is_ready(int file, short events, Clock::time_point end) {
  pollfd waits{.fd = file, .events = events, .revents = 0};
  return ::poll(&waits, 1, milliseconds_until(end)) == 1;
}

// Reads until the connection ends or the time is up, and returns the number of bytes read.
std::size_t read_all(int file, void* to, std::size_t bytes, Clock::time_point end) {
  std::size_t done = 0;
  while (done < bytes && is_ready(file, POLLIN, end)) {
    const ssize_t count = ::recv(file, static_cast<char*>(to) + done, bytes - done, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return done;
}

bool write_all(int file, const void* from, std::size_t bytes, Clock::time_point end) {
  std::size_t done = 0;
  while (done < bytes) {
    if (!is_ready(file, POLLOUT, end)) return false;
    const ssize_t count =
        ::send(file, static_cast<const char*>(from) + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return true;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
Addresses addresses_of(const std::string& host, int port, bool listens, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) error = ::gai_strerror(code);
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

void set_up(const Socket& socket) {
  constexpr int kOn = 1;
  ::setsockopt(socket.file(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
  ::setsockopt(socket.file(), SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::fcntl(socket.file(), F_SETFL, ::fcntl(socket.file(), F_GETFL) | O_NONBLOCK);
}

std::string numeric_address(const sockaddr_storage& address, socklen_t bytes) {
  std::array<char, kAddressBytes> text{};
  const int code = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, text.data(), text.size(), nullptr,
                                 0, NI_NUMERICHOST);
  return code == 0 ? text.data() : "";
}
std::string own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  return ::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0
             ? numeric_address(address, bytes)
             : "";
}
std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  return ::getpeername(socket.file(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0
             ? numeric_address(address, bytes)
             : "";
}
int own_port(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Returns a socket that listens; no socket and `error` (errno) if there is none.
Socket listen_at(const std::string& host, int port, int& error, std::string& text) {
  const Addresses addresses = addresses_of(host, port, true, text);
  error = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) continue;
    constexpr int kOn = 1;
    ::setsockopt(socket.file(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn);
    if (::bind(socket.file(), each->ai_addr, each->ai_addrlen) == 0 && ::listen(socket.file(), 1024) == 0)
      return socket;
    error = errno;
  }
  if (error != 0) text = std::strerror(error);
  return {};
}

Socket listen_for_ranks(const Rendezvous& place) {
  int error = 0;
  std::string text;
  Socket socket = listen_at(place.host, place.port, error, text);
  // The name may belong to a router in front of this machine.
  if (!socket && error == EADDRNOTAVAIL) socket = listen_at("", place.port, error, text);
  if (socket) return socket;
  if (error == EADDRINUSE) {
    throw_problem("the address where the ranks are to meet is in use", place, text, "a free port", kRemedyPort);
  }
  throw_problem("rank 0 cannot listen at the address where the ranks are to meet", place, text,
                "an address of rank 0's machine", kRemedyPort);
}

// Tries until someone listens there.
Socket connect_to(const std::string& host, int port, const Rendezvous& place, Clock::time_point end) {
  std::string text;
  for (;;) {
    const Addresses addresses = addresses_of(host, port, false, text);
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) continue;
      int error = ::connect(socket.file(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS && is_ready(socket.file(), POLLOUT, std::min(end, Clock::now() + kPatienceForHello))) {
        socklen_t bytes = sizeof error;
        ::getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      }
      if (error == 0) {
        set_up(socket);
        return socket;
      }
      text = std::strerror(error);
    }
    if (Clock::now() >= end) {
      throw_problem(
          "nobody answers where the ranks are to meet", place, fmt::format("{}:{}: {}", host, port, text),
          "rank 0 listening there, reachable from every machine",
          "see whether rank 0 has started; a firewall may be between the machines; --timeout gives it longer");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Accepts other ranks, and refuses strangers.
class Door {
 public:
  Door(const Socket& listener, const Launch& launch, const MeetingOptions& options)
      : listener_(listener), launch_(launch) {
    put(run_, options.run);
  }

  // Waits for a connection of a rank that `wants` says is missing. Returns no socket when the time is up.
  template <typename Wants>
  std::pair<Socket, Hello> next(const Wants& wants, Clock::time_point end) {
    while (Clock::now() < end) {
      std::vector<pollfd> waits = {{.fd = listener_.file(), .events = POLLIN, .revents = 0}};
      for (const Guest& guest : guests_) waits.push_back({.fd = guest.socket.file(), .events = POLLIN, .revents = 0});
      ::poll(waits.data(), waits.size(), std::min(100, milliseconds_until(end)));
      if (waits[0].revents != 0) {
        Guest guest{.socket = Socket(::accept4(listener_.file(), nullptr, nullptr, SOCK_CLOEXEC)),
                    .until = Clock::now() + kPatienceForHello};
        if (guest.socket) {
          set_up(guest.socket);
          guests_.push_back(std::move(guest));
        }
      }
      for (std::size_t i = 0; i < guests_.size(); ++i) {
        if (!hear(guests_[i])) continue;
        Guest guest = std::move(guests_[i]);
        guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i--));
        if (!guest.is_whole || !is_of_this_run(guest)) continue;
        if (!wants(guest.hello)) {
          refuse(guest, fmt::format("another process has come as rank {} before", guest.hello.rank));
          continue;
        }
        return {std::move(guest.socket), guest.hello};
      }
    }
    return {};
  }

 private:
  struct Guest {
    Socket socket;
    Clock::time_point until{};
    Hello hello{};
    std::size_t heard = 0;
    bool is_whole = false;
  };

  // Returns true when nothing more is expected.
  bool hear(Guest& guest) const {
    const ssize_t count = ::recv(guest.socket.file(), reinterpret_cast<char*>(&guest.hello) + guest.heard,
                                 sizeof(Hello) - guest.heard, MSG_DONTWAIT);
    if (count > 0) guest.heard += static_cast<std::size_t>(count);
    const bool is_foreign = guest.heard > 0 && std::memcmp(guest.hello.magic.data(), kMagic.data(),
                                                           std::min(guest.heard, kMagic.size())) != 0;
    if (is_foreign) tell_stranger(guest, "speaks another protocol");
    guest.is_whole = guest.heard == sizeof(Hello) && !is_foreign;
    const bool has_left = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    return is_foreign || guest.is_whole || has_left || Clock::now() > guest.until;
  }

  bool is_of_this_run(Guest& guest) const {
    const Hello& hello = guest.hello;
    if (hello.protocol != kProtocol) {
      return refuse(guest, "another version of Plimsoll has started rank 0");
    }
    if (std::strncmp(hello.run.data(), run_.data(), kNameBytes) != 0)
      return refuse(guest, "the ranks of another run meet here");
    if (hello.size != launch_.size || hello.rank < 0 || hello.rank >= launch_.size) {
      return refuse(guest, fmt::format("rank {} of {}, where {} ranks meet", hello.rank, hello.size, launch_.size));
    }
    return true;
  }

  bool refuse(const Guest& guest, const std::string& why) const {
    Hello answer{.refused = 1};
    put(answer.host, why);
    write_all(guest.socket.file(), &answer, sizeof answer, Clock::now() + kPatienceForHello);
    tell_stranger(guest, why);
    return false;
  }

  static void tell_stranger(const Guest& guest, const std::string& why) {
    log_warning(
        fmt::format("a connection from {} was refused where the ranks meet: {}", peer_address(guest.socket), why));
  }

  const Socket& listener_;
  const Launch& launch_;
  std::array<char, kNameBytes> run_{};
  std::vector<Guest> guests_;
};

Hello hello_of(const Launch& launch, const MeetingOptions& options) {
  Hello hello{.rank = launch.rank, .size = launch.size};
  put(hello.run, options.run);
  std::array<char, kNameBytes> name{};
  ::gethostname(name.data(), name.size() - 1);
  put(hello.host, name.data());
  return hello;
}

// Opens both connections to a rank that listens there, and sends hello.
void visit(Meeting& meeting, const std::string& address, int port, Hello hello, const Rendezvous& place,
           Clock::time_point end) {
  for (const bool signals : {false, true}) {
    Socket& socket = signals ? meeting.signals : meeting.messages;
    socket = connect_to(address, port, place, end);
    hello.signals = signals ? 1 : 0;
    if (!write_all(socket.file(), &hello, sizeof hello, end)) {
      throw_problem("a connection between two ranks broke", place, std::strerror(errno), "",
                    "look at the other ranks' messages");
    }
  }
}

// Accepts the ranks that connect to this one. Throws EnvironmentError naming the ranks that are missing.
void receive_visits(Door& door, std::vector<Meeting>& all, int first, const Rendezvous& place, Clock::time_point end,
                    const std::function<void(const Hello&, const Socket&)>& on_visit) {
  const auto is_missing = [&](int rank, bool signals) {
    const Meeting& meeting = all[static_cast<std::size_t>(rank)];
    return rank >= first && !(signals ? meeting.signals : meeting.messages);
  };
  for (auto left = 2 * (all.size() - static_cast<std::size_t>(first)); left > 0; --left) {
    auto [socket, hello] = door.next([&](const Hello& h) { return is_missing(h.rank, h.signals != 0); }, end);
    if (!socket) {
      std::string missing;
      for (int r = first; r < static_cast<int>(all.size()); ++r) {
        if (is_missing(r, false) || is_missing(r, true)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
      }
      throw_problem("not all ranks have come to the meeting address", place,
                    fmt::format("no word from rank {}", missing), "all of them within --timeout",
                    "look at those ranks' own messages; a firewall may be between the machines");
    }
    if (on_visit) on_visit(hello, socket);
    Meeting& meeting = all[static_cast<std::size_t>(hello.rank)];
    if (hello.signals == 0) meeting.host = hello.host.data();
    (hello.signals != 0 ? meeting.signals : meeting.messages) = std::move(socket);
  }
}

void host_meeting(const Launch& launch, std::vector<Meeting>& all, const Hello& mine, const Rendezvous& place,
                  const MeetingOptions& options, Clock::time_point end) {
  const Socket listener = listen_for_ranks(place);
  Door door(listener, launch, options);
  std::vector<Entry> entries(all.size());
  put(entries[0].host, mine.host.data());
  receive_visits(door, all, 1, place, end, [&](const Hello& hello, const Socket& socket) {
    Entry& entry = entries[static_cast<std::size_t>(hello.rank)];
    put(entry.host, hello.host.data());
    put(entry.address, peer_address(socket));
    entry.port = hello.port;
  });
  for (std::size_t r = 1; r < all.size(); ++r) {
    const int file = all[r].messages.file();
    if (write_all(file, &mine, sizeof mine, end) &&
        write_all(file, entries.data(), entries.size() * sizeof(Entry), end)) {
      continue;
    }
    throw_problem("a connection between two ranks broke", place, fmt::format("rank {} on {} has left", r, all[r].host),
                  "", "look at that rank's own message");
  }
}

void go_to_meeting(const Launch& launch, std::vector<Meeting>& all, Hello hello, const Rendezvous& place,
                   const MeetingOptions& options, Clock::time_point end) {
  // Listens at this machine's address in the network of rank 0.
  Socket first = connect_to(place.host, place.port, place, end);
  int error = 0;
  std::string text;
  const Socket listener = listen_at(own_address(first), 0, error, text);
  if (!listener) throw_problem("this rank cannot listen for others", place, text, "", "see the machine's network");
  hello.port = own_port(listener);
  all[0].messages = std::move(first);
  if (!write_all(all[0].messages.file(), &hello, sizeof hello, end)) {
    throw_problem("the connection to rank 0 broke", place, std::strerror(errno), "", "look at rank 0's own message");
  }
  Hello second = hello;
  second.signals = 1;
  all[0].signals = connect_to(place.host, place.port, place, end);
  write_all(all[0].signals.file(), &second, sizeof second, end);

  Hello answer{};
  const std::size_t heard = read_all(all[0].messages.file(), &answer, sizeof answer, end);
  if (heard > 0 && std::memcmp(answer.magic.data(), kMagic.data(), std::min(heard, kMagic.size())) != 0) {
    throw_problem("something else than rank 0 listens where the ranks are to meet", place, "another protocol",
                  "rank 0 of this run", kRemedyPort);
  }
  if (heard == sizeof answer && answer.refused != 0) {
    throw_problem("rank 0 has refused this rank", place, answer.host.data(), "the ranks of one run", kRemedyPort);
  }
  std::vector<Entry> entries(all.size());
  const std::size_t bytes = entries.size() * sizeof(Entry);
  if (heard != sizeof answer || read_all(all[0].messages.file(), entries.data(), bytes, end) != bytes) {
    throw_problem("rank 0 does not say where the other ranks are", place,
                  Clock::now() < end ? "it has left" : "not all ranks have come within --timeout", "",
                  "look at the other ranks' own messages");
  }
  for (std::size_t r = 0; r < all.size(); ++r) all[r].host = entries[r].host.data();
  for (int below = 1; below < launch.rank; ++below) {
    const Entry& entry = entries[static_cast<std::size_t>(below)];
    visit(all[static_cast<std::size_t>(below)], entry.address.data(), entry.port, hello, place, end);
  }
  Door door(listener, launch, options);
  receive_visits(door, all, launch.rank + 1, place, end, nullptr);
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}
Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}

std::string Rendezvous::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Rendezvous find_rendezvous(const std::string& typed, const ReadVariable& read) {
  const auto port_of = [](const std::string& text, const std::string& where) {
    int port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536) return port;
    throw UsageError({.what = "the port where the ranks are to meet is invalid",
                      .where = where,
                      .found = fmt::format("'{}'", text),
                      .allowed = "a number from 1 to 65535"});
  };
  if (!typed.empty()) {
    const std::size_t colon = typed.rfind(':');
    std::string host = colon == std::string::npos ? "" : typed.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty()) {
      throw UsageError({.what = "the address where the ranks are to meet is invalid",
                        .where = "--rendezvous",
                        .found = fmt::format("'{}'", typed),
                        .allowed = "HOST:PORT, such as node1:29400 or [fe80::1]:29400"});
    }
    return {.host = host, .port = port_of(typed.substr(colon + 1), "--rendezvous"), .from = "--rendezvous"};
  }
  const std::optional<std::string> host = read("MASTER_ADDR"), port = read("MASTER_PORT");
  if (!host || !port) {
    throw UsageError({.what = "the ranks do not know where to meet",
                      .where = "MASTER_ADDR, MASTER_PORT",
                      .found = "not set",
                      .allowed = "both, as torchrun sets them, or --rendezvous HOST:PORT",
                      .remedy = "start the command by torchrun or mpirun, or pass --rendezvous"});
  }
  const int master = port_of(*port, "MASTER_PORT");
  return {.host = *host, .port = master == 65535 ? master - 1 : master + 1, .from = "the port after MASTER_PORT"};
}

std::vector<Meeting> meet(const Launch& launch, const Rendezvous& place, const MeetingOptions& options) {
  const auto end = Clock::now() + options.timeout;
  std::vector<Meeting> all(static_cast<std::size_t>(launch.size));
  const Hello mine = hello_of(launch, options);
  all[static_cast<std::size_t>(launch.rank)].host = mine.host.data();
  if (launch.size == 1) return all;
  if (launch.rank == 0) {
    host_meeting(launch, all, mine, place, options, end);
  } else {
    go_to_meeting(launch, all, mine, place, options, end);
  }
  return all;
}

}  // namespace plimsoll
