#include "ranks/socket_communicator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/rank_failure.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

// The most messages between two ranks in one direction that have begun and are not done.
constexpr std::size_t kSlots = 4096;
// How long an ending rank waits for the others to say that they are leaving.
constexpr std::chrono::milliseconds kPatienceForLeave(2000);
// How long a rank whose connection is closed, or others, may take to say why.
constexpr std::chrono::milliseconds kPatienceForReason(200);

struct Message {
  std::int64_t ticket = 0;
  std::byte* bytes = nullptr;
  std::size_t size = 0;
};

// A queue that never allocates after its construction.
class MessageQueue {
 public:
  MessageQueue() : slots_(kSlots) {}
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == slots_.size(); }
  Message& front() { return slots_[first_]; }
  void push(const Message& message) { slots_[(first_ + count_++) % slots_.size()] = message; }
  void pop() {
    first_ = (first_ + 1) % slots_.size();
    --count_;
  }

 private:
  std::vector<Message> slots_;
  std::size_t first_ = 0, count_ = 0;
};

// What a connection for signals carries: either only the first byte, or the second one, a length, and a failure as
// "CODE\nWHAT".
constexpr char kLeaves = 'l', kFails = 'f';
constexpr std::size_t kSignalHead = 1 + sizeof(std::uint32_t);

struct Peer {
  MessageQueue sends, receives;
  std::uint64_t send_size = 0, receive_size = 0;               // precedes the message
  std::size_t sent = 0, received = 0;                          // bytes of the size and of the first message
  bool has_left = false;                                       // and has said so
  std::array<char, kMostFailureBytes + kSignalHead> signal{};  // the part of a signal that has arrived
  std::size_t signal_bytes = 0;
};

class SocketCommunicator final : public Communicator {
 public:
  SocketCommunicator(const Launch& launch, const Rendezvous& place, const SocketOptions& options)
      : options_(options), rank_(launch.rank), meetings_(meet(launch, place, {options.timeout, options.run})) {
    for (std::size_t r = 0; r < meetings_.size(); ++r) peers_.push_back(std::make_unique<Peer>());
    waits_.reserve(2 * meetings_.size());
    reserve(1);
    barrier(*this);
  }

  ~SocketCommunicator() override {
    if (!failed_) leave();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meetings_.size()); }
  const std::string& host(int rank) const override { return meetings_.at(static_cast<std::size_t>(rank)).host; }

  void reserve(std::int64_t tickets) override {
    pending_.resize(std::max(pending_.size(), static_cast<std::size_t>(tickets)), 0);
  }

  void poll() override {
    if (under_way_ > 0) progress();
    if (++polls_ % 64 == 0) hear_signals();
  }

  void fail(const Problem& problem, ExitCode code) noexcept override {
    if (failed_) return;
    try {
      fail_others(failure_text(*this, problem, code));
    } catch (...) {  // others then notice that this rank has ended
    }
  }

 private:
  void begin_send(std::int64_t ticket, int to, std::span<const std::byte> bytes) override {
    // Messages to send are only read.
    add(peer(to).sends, {.ticket = ticket, .bytes = const_cast<std::byte*>(bytes.data()), .size = bytes.size()});
  }
  void begin_receive(std::int64_t ticket, int from, std::span<std::byte> bytes) override {
    add(peer(from).receives, {.ticket = ticket, .bytes = bytes.data(), .size = bytes.size()});
  }

  bool is_done(std::int64_t ticket) const override { return pending_.at(static_cast<std::size_t>(ticket)) == 0; }
  void wait_until_done(std::int64_t ticket) override {
    wait_until([&] { return is_done(ticket); });
  }

  Peer& peer(int rank) { return *peers_.at(static_cast<std::size_t>(rank)); }
  const Meeting& meeting(int rank) const { return meetings_[static_cast<std::size_t>(rank)]; }

  void add(MessageQueue& queue, const Message& message) {
    if (queue.full()) wait_until([&] { return !queue.full(); });
    ++pending_.at(static_cast<std::size_t>(message.ticket));
    ++under_way_;
    queue.push(message);
    progress();
  }

  void finish(MessageQueue& queue) {
    --pending_[static_cast<std::size_t>(queue.front().ticket)];
    --under_way_;
    queue.pop();
  }

  // Returns true if bytes have moved.
  bool progress() {
    bool moved = false;
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      moved |= send_some(other);
      moved |= receive_some(other);
    }
    return moved;
  }

  bool send_some(int other) {
    Peer& to = peer(other);
    bool moved = false;
    while (!to.sends.empty()) {
      const Message& message = to.sends.front();
      to.send_size = message.size;
      constexpr std::size_t kHead = sizeof to.send_size;
      const bool in_head = to.sent < kHead;
      const char* const at = in_head ? reinterpret_cast<const char*>(&to.send_size) + to.sent
                                     : reinterpret_cast<const char*>(message.bytes) + (to.sent - kHead);
      const std::size_t left = (in_head ? kHead : kHead + message.size) - to.sent;
      if (left > 0) {
        const int more = in_head && message.size > 0 ? MSG_MORE : 0;
        const ssize_t count = ::send(meeting(other).messages.file(), at, left, MSG_DONTWAIT | MSG_NOSIGNAL | more);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return moved;
        if (count <= 0) throw_ended(other, std::strerror(errno));
        to.sent += static_cast<std::size_t>(count);
        moved = true;
      }
      if (to.sent < kHead + message.size) continue;
      to.sent = 0;
      finish(to.sends);
    }
    return moved;
  }

  bool receive_some(int other) {
    Peer& from = peer(other);
    bool moved = false;
    while (!from.receives.empty()) {
      const Message& message = from.receives.front();
      constexpr std::size_t kHead = sizeof from.receive_size;
      const bool in_head = from.received < kHead;
      char* const at = in_head ? reinterpret_cast<char*>(&from.receive_size) + from.received
                               : reinterpret_cast<char*>(message.bytes) + (from.received - kHead);
      const std::size_t left = (in_head ? kHead : kHead + from.receive_size) - from.received;
      if (left > 0) {
        const ssize_t count = ::recv(meeting(other).messages.file(), at, left, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return moved;
        if (count <= 0) throw_ended(other, count == 0 ? "its connection is closed" : std::strerror(errno));
        from.received += static_cast<std::size_t>(count);
        moved = true;
      }
      if (from.received == kHead) {
        check(from.receive_size <= message.size, "a message fits the place where it is received");
      }
      if (from.received < kHead || from.received < kHead + from.receive_size) continue;
      from.received = 0;
      finish(from.receives);
    }
    return moved;
  }

  template <typename IsDone>
  void wait_until(const IsDone& is_done) {
    auto last = Clock::now();
    for (std::int64_t idle = 0;; ++idle) {
      if (progress()) {
        idle = 0;
        last = Clock::now();
      }
      if (is_done()) return;
      if (idle < 64) {
        std::this_thread::yield();
        continue;
      }
      hear_signals();
      const auto silent = Clock::now() - last;
      if (silent > options_.timeout || (options_.end_signal() != 0 && silent > kPatienceWithSilence))
        throw_silent(silent);
      sleep_until_ready();
    }
  }

  // Sleeps for a few milliseconds at most, because the process may be asked to end.
  void sleep_until_ready() {
    waits_.clear();
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      const short sends = peer(other).sends.empty() ? 0 : POLLOUT, receives = peer(other).receives.empty() ? 0 : POLLIN;
      if ((sends | receives) != 0) {
        waits_.push_back(
            {.fd = meeting(other).messages.file(), .events = static_cast<short>(sends | receives), .revents = 0});
      }
      if (!peer(other).has_left)
        waits_.push_back({.fd = meeting(other).signals.file(), .events = POLLIN, .revents = 0});
    }
    ::poll(waits_.data(), waits_.size(), 5);
  }

  // Throws RankError if a rank has failed, or has ended without saying that it leaves.
  void hear_signals() {
    int ended = -1;
    std::string found;
    for (int other = 0; other < size(); ++other) {
      if (other != rank_ && !hear(other, found)) ended = other;
    }
    if (ended >= 0) throw_ended(ended, found);
  }

  // Returns false if the rank has ended. Throws RankError with the reason that it gives.
  bool hear(int other, std::string& found) {
    Peer& from = peer(other);
    while (!from.has_left) {
      const ssize_t count = ::recv(meeting(other).signals.file(), from.signal.data() + from.signal_bytes,
                                   from.signal.size() - from.signal_bytes, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
      if (count <= 0) {
        found = count == 0 ? "its connection is closed" : std::strerror(errno);
        return false;
      }
      from.signal_bytes += static_cast<std::size_t>(count);
      from.has_left = from.signal[0] == kLeaves;
      std::uint32_t size = 0;
      if (from.has_left || from.signal_bytes < kSignalHead) continue;
      std::memcpy(&size, from.signal.data() + 1, sizeof size);
      const std::size_t whole = std::min<std::size_t>(size, kMostFailureBytes);
      if (from.signal_bytes >= kSignalHead + whole) throw_failed({from.signal.data() + kSignalHead, whole});
    }
    return true;
  }

  // Passes the reason on, so that ranks that see this one end know why.
  [[noreturn]] void throw_failed(const std::string& reason) {
    fail_others(reason);
    throw told_failure(*this, reason);
  }

  [[noreturn]] void throw_ended(int ended, const std::string& found) {
    // That rank, or another one that has heard of the failure, may say why.
    const auto end = Clock::now() + kPatienceForReason;
    do {
      std::string ignored;
      for (int other = 0; other < size(); ++other) {
        if (other != rank_) hear(other, ignored);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (Clock::now() < end);
    const std::string what = rank_text(*this, ended) + " has ended";
    fail_others(fmt::format("{}\n{}", static_cast<int>(ExitCode::kEnvironment), what));
    throw RankError({.what = what,
                     .where = rank_text(*this, rank_),
                     .found = found,
                     .remedy = "look at the launcher's message and at that rank's machine"},
                    ExitCode::kEnvironment);
  }

  [[noreturn]] void throw_silent(Clock::duration silent) {
    std::string names;
    for (int other = 0; other < size(); ++other) {
      if (other == rank_ || (peer(other).sends.empty() && peer(other).receives.empty())) continue;
      names += (names.empty() ? "" : ", ") + rank_text(*this, other);
    }
    RankError error = silent_failure(*this, names, silent, options_.end_signal());
    fail_others(fmt::format("{}\n{}", static_cast<int>(ExitCode::kEnvironment), error.problem().what));
    throw error;
  }

  // Sends to all others; there is room for it, because nothing else was sent on these connections.
  void tell(const std::string& signal) const {
    for (int other = 0; other < size(); ++other) {
      if (other != rank_)
        ::send(meeting(other).signals.file(), signal.data(), signal.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }

  // `reason` is "CODE\nWHAT".
  void fail_others(const std::string& reason) {
    failed_ = true;
    const std::string text = reason.substr(0, kMostFailureBytes);
    const auto size = static_cast<std::uint32_t>(text.size());
    std::string signal(1, kFails);
    signal.append(reinterpret_cast<const char*>(&size), sizeof size);
    tell(signal + text);
  }

  // Keeps connections open that another rank still reads from: data in transit could be lost.
  void leave() noexcept {
    try {
      tell(std::string(1, kLeaves));
      const auto end = Clock::now() + kPatienceForLeave;
      const auto all_have_left = [&] {
        for (int other = 0; other < size(); ++other) {
          if (other != rank_ && !peer(other).has_left) return false;
        }
        return true;
      };
      while (!all_have_left() && Clock::now() < end) {
        hear_signals();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (...) {  // a rank that has ended does not read
    }
  }

  SocketOptions options_;
  int rank_;
  std::vector<Meeting> meetings_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<int> pending_;  // by ticket
  std::vector<pollfd> waits_;
  std::int64_t under_way_ = 0;
  std::uint64_t polls_ = 0;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<Communicator> connect_by_sockets(const Launch& launch, const Rendezvous& place,
                                                 const SocketOptions& options) {
  return std::make_unique<SocketCommunicator>(launch, place, options);
}

}  // namespace plimsoll
