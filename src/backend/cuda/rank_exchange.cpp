#include "backend/cuda/rank_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/bytes.h"

namespace plimsoll::cuda {
namespace {

// How long a rank that has lost another one waits for a message about what happened to it.
constexpr std::chrono::seconds kPatienceForReason(5);
// The bytes of a first message.
constexpr std::size_t kHelloBytes = 256;

// Throws EnvironmentError if two ranks use one GPU, which NCCL cannot connect with itself.
void check_gpus(Communicator& ranks, const Gpu& gpu) {
  const std::vector<std::string> all = all_gather_texts(ranks, gpu.bus_id());
  std::map<std::pair<std::string, std::string>, int> users;
  for (int r = 0; r < ranks.size(); ++r) {
    const std::string& bus_id = all[static_cast<std::size_t>(r)];
    const auto [user, is_first] = users.try_emplace({ranks.host(r), bus_id}, r);
    if (is_first) continue;
    throw EnvironmentError(
        {.what = "two ranks use one GPU",
         .where = "--device cuda",
         .found = fmt::format("the GPU at {} of {}, used by ranks {} and {}", bus_id, ranks.host(r), user->second, r),
         .allowed = "a GPU for each rank of a machine",
         .remedy = "start no more ranks on a machine than it has GPUs, and let each rank see all of "
                   "them or its own (CUDA_VISIBLE_DEVICES)"});
  }
}

void check_versions(Communicator& ranks, int version) {
  const std::vector<int> all = all_gather(ranks, version);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw EnvironmentError({.what = "the ranks have different versions of NCCL",
                            .where = "libnccl.so.2",
                            .found = fmt::format("{} on {}, {} on {}", nccl_version_text(all[0]), ranks.host(0),
                                                 nccl_version_text(all[r]), ranks.host(static_cast<int>(r))),
                            .allowed = "one version on all machines",
                            .remedy = "install the same version everywhere, or name one file in PLIMSOLL_NCCL"});
  }
}

}  // namespace

RankExchange::RankExchange(const Context& context, const Nccl& nccl, Communicator& ranks,
                           std::chrono::milliseconds timeout)
    : context_(context), nccl_(nccl), ranks_(ranks), timeout_(timeout) {
  int version = 0;
  check_nccl(nccl_.version(&version), "its version");
  library_ = fmt::format("NCCL {}", nccl_version_text(version));
  check_versions(ranks_, version);
  check_gpus(ranks_, context_.gpu());
  NcclId id;
  if (rank() == 0) check_nccl(nccl_.make_id(&id), "an id for the ranks");
  id = all_gather(ranks_, id).front();
  const std::size_t before = context_.gpu().use().held_bytes;
  check_nccl(nccl_.connect(&comm_, this->ranks(), id, rank()), "the connection between the ranks");
  try {
    say_hello();
  } catch (...) {
    abort();
    throw;
  }
  const std::size_t after = context_.gpu().use().held_bytes;
  device_bytes_ = after - std::min(before, after);
}

RankExchange::~RankExchange() {
  if (comm_ == nullptr) return;
  context_.drain(stream_.get());
  if (comm_ != nullptr) nccl_.destroy(std::exchange(comm_, nullptr));
}

void RankExchange::check_nccl(int result, const char* doing) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  throw EnvironmentError(
      {.what = fmt::format("NCCL refused: {}", doing),
       .where = fmt::format("rank {} on {}, {}", rank(), ranks_.host(rank()), library_),
       .found = nccl_.error_text(result),
       .remedy = "set NCCL_DEBUG=WARN, which makes NCCL say more; without a network between the machines' GPUs "
                 "NCCL_SOCKET_IFNAME names the interface to use"});
}

// Every rank sends to every other one, as exchanges do.
void RankExchange::say_hello() {
  const DeviceBytes hello(kHelloBytes * 2 * static_cast<std::size_t>(ranks()));
  const std::span<std::byte> bytes = hello.bytes();
  check_cuda(cudaMemsetAsync(bytes.data(), 0, bytes.size(), context_.stream()), "a first message");
  reserve(0);
  begin();
  next(1);
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    const std::size_t place = 2 * kHelloBytes * static_cast<std::size_t>(other);
    receive(bytes.subspan(place, kHelloBytes), other);
    send(bytes.subspan(place + kHelloBytes, kHelloBytes), other);
  }
  end(0);
  wait(0);
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream_.get());
    if (error != cudaErrorNotReady) return check_cuda(error, "a first message");
    cudaGetLastError();
    watch(std::chrono::steady_clock::now() - begun);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void RankExchange::reserve(std::int64_t ticket) {
  while (done_.size() <= static_cast<std::size_t>(ticket)) done_.push_back(std::make_unique<Event>());
}

void RankExchange::open_group() {
  if (comm_ == nullptr) throw_lost("the connection was given up before");
  check_nccl(nccl_.begin_group(), "a group of messages");
  in_group_ = true;
}

void RankExchange::close_group() {
  if (std::exchange(in_group_, false)) check_nccl(nccl_.end_group(), "messages between the ranks");
}

void RankExchange::begin() {
  ++begun_;
  calls_ = 0;
  ready_.record(context_.stream());
  check_cuda(cudaStreamWaitEvent(stream_.get(), ready_.get(), 0), "messages between the ranks");
}

void RankExchange::send(std::span<const std::byte> bytes, int to, bool rows) {
  if (!in_group_) open_group();
  check_nccl(nccl_.send(bytes.data(), bytes.size(), kNcclBytes, to, comm_, stream_.get()), "a message to another rank");
  ranks_.add_traffic({.sent_bytes = rows ? 0 : bytes.size(),
                      .sent_messages = rows ? 0U : 1U,
                      .sent_row_bytes = rows ? bytes.size() : 0});
}

void RankExchange::receive(std::span<std::byte> bytes, int from, bool rows) {
  if (!in_group_) open_group();
  check_nccl(nccl_.receive(bytes.data(), bytes.size(), kNcclBytes, from, comm_, stream_.get()),
             "a message from another rank");
  if (!rows) ranks_.add_traffic({.received_bytes = bytes.size()});
}

void RankExchange::next(int messages) {
  const int calls = 2 * messages * (ranks() - 1);
  if (calls_ + calls > kNcclMostGroupedCalls) {
    close_group();
    calls_ = 0;
  }
  calls_ += calls;
}

void RankExchange::end(std::int64_t ticket) {
  close_group();
  done_.at(static_cast<std::size_t>(ticket))->record(stream_.get());
}

void RankExchange::wait(std::int64_t ticket) const {
  const Event& done = *done_.at(static_cast<std::size_t>(ticket));
  check_cuda(cudaStreamWaitEvent(context_.stream(), done.get(), 0), "messages between the ranks");
}

void RankExchange::watch(std::chrono::steady_clock::duration waited) {
  if (comm_ == nullptr) throw_lost("the connection was given up before");
  try {
    ranks_.poll();
  } catch (...) {
    abort();
    throw;
  }
  int result = kNcclSuccess;
  check_nccl(nccl_.async_error(comm_, &result), "the state of the connection");
  if (result != kNcclSuccess && result != kNcclInProgress) throw_lost(nccl_.error_text(result));
  if (waited > timeout_) {
    throw_lost(
        fmt::format("nothing for {:.0f} s, the limit of --timeout", std::chrono::duration<double>(waited).count()));
  }
}

void RankExchange::throw_lost(const std::string& found) {
  abort();
  // The failed rank says why it failed, or its connection shows which one it is.
  const auto end = std::chrono::steady_clock::now() + kPatienceForReason;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 64; ++i) ranks_.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string others;
  for (int r = 0; r < ranks(); ++r) {
    if (r != rank()) others += fmt::format("{}rank {} on {}", others.empty() ? "" : ", ", r, ranks_.host(r));
  }
  throw RankError(
      {.what = fmt::format("{} {}", others, ranks() == 2 ? "does not answer" : ": one of them does not answer"),
       .where = fmt::format("rank {} on {}, {}", rank(), ranks_.host(rank()), library_),
       .found = found,
       .remedy = "look at the launcher's message and at that rank's machine"},
      ExitCode::kEnvironment);
}

void RankExchange::abort() noexcept {
  if (comm_ == nullptr) return;
  if (std::exchange(in_group_, false)) nccl_.end_group();
  nccl_.abort(std::exchange(comm_, nullptr));
}

}  // namespace plimsoll::cuda
