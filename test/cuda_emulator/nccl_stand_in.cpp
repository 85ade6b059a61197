#include "nccl_stand_in.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// NCCL's functions, as NVIDIA's documentation declares them.
extern "C" {
struct ncclComm;
struct ncclUniqueId {
  char internal[128];
};
int ncclGetVersion(int* version);
const char* ncclGetErrorString(int result);
int ncclGetUniqueId(ncclUniqueId* id);
int ncclCommInitRank(ncclComm** comm, int ranks, ncclUniqueId id, int rank);
int ncclGroupStart();
int ncclGroupEnd();
int ncclSend(const void* from, std::size_t count, int type, int to, ncclComm* comm, CUstream_st* stream);
int ncclRecv(void* to, std::size_t count, int type, int from, ncclComm* comm, CUstream_st* stream);
int ncclCommGetAsyncError(ncclComm* comm, int* result);
int ncclCommAbort(ncclComm* comm);
int ncclCommDestroy(ncclComm* comm);
void plimsoll_nccl_stand_in(const cuda_emulator::NcclHooks& hooks);
}

namespace {

constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;
constexpr int kBytes = 1, kMostCalls = 2048;
constexpr std::uint64_t kMagic = 0x706c696d736f6c6c;
using Clock = std::chrono::steady_clock;

cuda_emulator::NcclHooks hooks;

// Precedes each message.
struct Header {
  std::uint64_t magic, number, bytes;  // number: of messages from that rank before
};

// The connection to one rank. The ends of a connection are those of a socket; `to_self` needs none.
struct Peer {
  int socket = -1;
  bool is_known = false;  // and has memory of the device
  std::uint64_t sent = 0, received = 0;
};

struct State {
  int rank = 0, ranks = 0;
  std::vector<Peer> peers;
  CUstream_st* stream = nullptr;  // the only one that it has been used on
  int error = kSuccess;
  bool aborted = false;
  std::size_t held = 0;

  ~State() {
    for (const Peer& peer : peers) {
      if (peer.socket >= 0) ::close(peer.socket);
    }
  }
  void take(std::size_t bytes) {
    hooks.take_memory(bytes);
    held += bytes;
  }
};

struct Call {
  std::shared_ptr<State> state;
  CUstream_st* stream;
  bool sends;
  void* address;
  std::size_t bytes;
  int peer;
};

int depth = 0;  // of groups
int group_error = kSuccess;
std::vector<Call> grouped;

int refuse(int result, const std::string& why) {
  std::fputs(fmt::format("nccl stand-in: {}\n", why).c_str(), stderr);
  return result;
}

// A group's messages of one peer in one direction, and how far they are.
struct Lane {
  int peer = 0;
  bool sends = false;
  std::vector<std::pair<char*, std::size_t>> messages;
  std::size_t message = 0, done = 0;  // bytes of the header and the message
  Header header{};

  bool is_done() const { return message == messages.size(); }
};

// Moves one lane on. Returns false if the connection is lost or the message is not the one that is expected.
bool move(State& state, Lane& lane) {
  Peer& peer = state.peers[static_cast<std::size_t>(lane.peer)];
  while (!lane.is_done()) {
    auto& [address, bytes] = lane.messages[lane.message];
    if (lane.done == 0 && lane.sends) lane.header = {.magic = kMagic, .number = peer.sent, .bytes = bytes};
    const bool in_header = lane.done < sizeof(Header);
    char* const at =
        in_header ? reinterpret_cast<char*>(&lane.header) + lane.done : address + lane.done - sizeof(Header);
    const std::size_t left = (in_header ? sizeof(Header) : sizeof(Header) + bytes) - lane.done;
    if (left > 0) {
      const ssize_t count = lane.sends ? ::send(peer.socket, at, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : ::recv(peer.socket, at, left, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
      if (count <= 0) {
        state.error = kRemoteError;
        return false;
      }
      lane.done += static_cast<std::size_t>(count);
    }
    if (!lane.sends && lane.done == sizeof(Header) && in_header) {
      const Header expected = {.magic = kMagic, .number = peer.received, .bytes = bytes};
      if (std::memcmp(&expected, &lane.header, sizeof expected) != 0) {
        state.error =
            refuse(kInvalidUsage, fmt::format("rank {} receives message {} of {} bytes from rank {}, which sends "
                                              "message {} of {} bytes",
                                              state.rank, expected.number, expected.bytes, lane.peer,
                                              lane.header.number, lane.header.bytes));
        return false;
      }
    }
    if (lane.done < sizeof(Header) + bytes) continue;
    ++(lane.sends ? peer.sent : peer.received);
    ++lane.message;
    lane.done = 0;
  }
  return true;
}

// Sends and receives whose addresses overlap would race on a GPU.
std::optional<std::string> find_overlap(const std::vector<Call>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t k = 0; k < calls.size(); ++k) {
      const Call &a = calls[i], &b = calls[k];
      const auto *const a_begin = static_cast<const char*>(a.address), *const b_begin =
                                                                           static_cast<const char*>(b.address);
      const bool meet = a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
      if (i != k && !a.sends && meet) return fmt::format("a receive from rank {} overlaps another call", a.peer);
    }
  }
  return std::nullopt;
}

int start(std::vector<Call> calls) {
  if (calls.empty()) return kSuccess;
  if (calls.size() > kMostCalls) return refuse(kInvalidUsage, fmt::format("{} calls in a group", calls.size()));
  const std::shared_ptr<State> state = calls.front().state;
  CUstream_st* const stream = calls.front().stream;
  for (const Call& call : calls) {
    if (call.state != state || call.stream != stream) {
      return refuse(kInvalidUsage, "a group of several communicators or streams");
    }
  }
  if (state->stream != nullptr && state->stream != stream) {
    return refuse(kInvalidUsage, "a communicator on several streams");
  }
  state->stream = stream;
  if (const auto overlap = find_overlap(calls)) return refuse(kInvalidUsage, *overlap);
  std::vector<Lane> lanes;
  for (const Call& call : calls) {
    Peer& peer = state->peers[static_cast<std::size_t>(call.peer)];
    if (!peer.is_known && hooks.is_captured(stream)) {
      return refuse(kInvalidUsage,
                    fmt::format("a first message between ranks {} and {} during a capture", state->rank, call.peer));
    }
    if (!std::exchange(peer.is_known, true)) state->take(cuda_emulator::kNcclBytesOfAPeer);
    Lane* lane = nullptr;
    for (Lane& each : lanes) {
      if (each.peer == call.peer && each.sends == call.sends) lane = &each;
    }
    if (lane == nullptr) lane = &lanes.emplace_back(Lane{.peer = call.peer, .sends = call.sends, .messages = {}});
    lane->messages.emplace_back(static_cast<char*>(call.address), call.bytes);
  }
  // A graph launches copies of this.
  hooks.enqueue(stream, [state, lanes]() mutable {
    if (state->aborted) return true;
    if (state->error != kSuccess) return false;
    bool all = true;
    for (Lane& lane : lanes) {
      if (!move(*state, lane)) return false;
      all = all && lane.is_done();
    }
    return all;
  });
  return kSuccess;
}

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};
// A name without a file.
Address address_of(const ncclUniqueId& id, int rank) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal + sizeof kMagic, sizeof number);
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string text = fmt::format("plimsoll-nccl-{:016x}-{}", number, rank);
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

// Ranks connect to those below them.
bool connect_all(State& state, const ncclUniqueId& id) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  const Address mine = address_of(id, state.rank);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = listener >= 0 && ::bind(listener, reinterpret_cast<const sockaddr*>(&mine.name), mine.bytes) == 0 &&
              ::listen(listener, 64) == 0;
  for (int below = 0; good && below < state.rank; ++below) {
    const Address theirs = address_of(id, below);
    for (;;) {
      const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&theirs.name), theirs.bytes) == 0) {
        good = ::send(socket, &state.rank, sizeof state.rank, MSG_NOSIGNAL) == sizeof state.rank;
        state.peers[static_cast<std::size_t>(below)].socket = socket;
        break;
      }
      ::close(socket);
      if (Clock::now() > end) good = false;
      if (!good) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  for (int above = state.rank + 1; good && above < state.ranks; ++above) {
    pollfd waits{.fd = listener, .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    const int socket = ::poll(&waits, 1, static_cast<int>(std::max<long>(0, left))) == 1
                           ? ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)
                           : -1;
    int rank = -1;
    good = socket >= 0 && ::recv(socket, &rank, sizeof rank, MSG_WAITALL) == sizeof rank && rank > state.rank &&
           rank < state.ranks && state.peers[static_cast<std::size_t>(rank)].socket < 0;
    if (good) state.peers[static_cast<std::size_t>(rank)].socket = socket;
  }
  if (listener >= 0) ::close(listener);
  return good;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

int add(Call call, int type, ncclComm* comm) {
  const auto refuse_call = [&](const std::string& why) {
    const int result = refuse(kInvalidArgument, fmt::format("a {} {}", call.sends ? "send" : "receive", why));
    if (depth > 0) group_error = result;
    return result;
  };
  if (comm == nullptr) return refuse_call("without a communicator");
  call.state = comm->state;
  if (call.state->aborted || call.state->error != kSuccess) return kRemoteError;
  if (type != kBytes) return refuse_call("of another type than bytes");
  if (call.peer < 0 || call.peer >= call.state->ranks || call.peer == call.state->rank) {
    return refuse_call(fmt::format("of rank {} with rank {} of {}", call.state->rank, call.peer, call.state->ranks));
  }
  if (!hooks.is_stream(call.stream)) return refuse_call("on a stream that is not there");
  if (call.bytes == 0) return refuse_call("of no bytes");
  if (!hooks.holds(call.address, call.bytes)) return refuse_call("outside the device's memory");
  if (depth == 0) return refuse_call("outside a group, which other ranks may wait for");
  grouped.push_back(std::move(call));
  return kSuccess;
}

}  // namespace

void plimsoll_nccl_stand_in(const cuda_emulator::NcclHooks& of_process) { hooks = of_process; }

int ncclGetVersion(int* version) {
  *version = 22203;
  return kSuccess;
}
const char* ncclGetErrorString(int result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result < 8 ? kTexts[result] : "unknown result code";
}
int ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  std::memcpy(id->internal, &kMagic, sizeof kMagic);
  std::memcpy(id->internal + sizeof kMagic, &number, sizeof number);
  return kSuccess;
}
int ncclCommInitRank(ncclComm** comm, int ranks, ncclUniqueId id, int rank) {
  if (hooks.enqueue == nullptr) return refuse(kInvalidUsage, "the process has no emulator");
  if (std::memcmp(id.internal, &kMagic, sizeof kMagic) != 0) return refuse(kInvalidArgument, "an id that is none");
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(kInvalidArgument, fmt::format("rank {} of {}", rank, ranks));
  if (depth > 0) return refuse(kInvalidUsage, "ncclCommInitRank within a group");
  auto state = std::make_shared<State>();
  state->rank = rank;
  state->ranks = ranks;
  state->peers.resize(static_cast<std::size_t>(ranks));
  if (!connect_all(*state, id)) return refuse(kSystemError, "the ranks do not find each other");
  state->take(cuda_emulator::kNcclBytesOfItself);
  *comm = new ncclComm{std::move(state)};
  return kSuccess;
}
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (depth == 0) return refuse(kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth > 0) return kSuccess;
  std::vector<Call> calls = std::exchange(grouped, {});
  if (const int error = std::exchange(group_error, kSuccess); error != kSuccess) return error;
  return start(std::move(calls));
}
int ncclSend(const void* from, std::size_t count, int type, int to, ncclComm* comm, CUstream_st* stream) {
  return add(
      {.state = {}, .stream = stream, .sends = true, .address = const_cast<void*>(from), .bytes = count, .peer = to},
      type, comm);
}
int ncclRecv(void* to, std::size_t count, int type, int from, ncclComm* comm, CUstream_st* stream) {
  return add({.state = {}, .stream = stream, .sends = false, .address = to, .bytes = count, .peer = from}, type, comm);
}
int ncclCommGetAsyncError(ncclComm* comm, int* result) {
  if (comm == nullptr) return refuse(kInvalidArgument, "an error of no communicator");
  *result = comm->state->error;
  return kSuccess;
}

static int end(ncclComm* comm) {
  if (comm == nullptr) return refuse(kInvalidArgument, "the end of no communicator");
  comm->state->aborted = true;  // work that is left becomes nothing
  hooks.give_memory(comm->state->held);
  for (Peer& peer : comm->state->peers) {
    if (peer.socket >= 0) ::close(std::exchange(peer.socket, -1));
  }
  delete comm;
  return kSuccess;
}
int ncclCommAbort(ncclComm* comm) { return end(comm); }
int ncclCommDestroy(ncclComm* comm) { return end(comm); }
