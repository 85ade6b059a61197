// Ranks that are threads of the test: messages are copied from one to the other.
//
//   run_ranks(2, [](Communicator& ranks) { barrier(ranks); });
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ranks/communicator.h"

namespace plimsoll::test {

// Where the messages of all ranks meet.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size) {}
  int size() const { return size_; }

  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::scoped_lock lock(mutex_);
    Way& way = ways_[{from, to}];
    way.sent.emplace_back(bytes.begin(), bytes.end());
    match(way);
  }
  void receive(int from, int to, std::span<std::byte> bytes, int* pending) {
    const std::scoped_lock lock(mutex_);
    Way& way = ways_[{from, to}];
    ++*pending;
    way.expected.push_back({bytes, pending});
    match(way);
  }
  void wait(const int* pending) {
    std::unique_lock lock(mutex_);
    const bool ended = arrived_.wait_for(lock, kPatience, [&] { return *pending == 0 || failed_; });
    if (!ended) throw RankError({.what = "the ranks wait for each other"}, ExitCode::kInternal);
    // What had come before a rank failed has come, as it has from a socket.
    if (*pending > 0) throw RankError({.what = failure_}, code_);
  }
  void fail(const std::string& what, ExitCode code) {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(failed_, true)) failure_ = what, code_ = code;
    arrived_.notify_all();
  }

 private:
  struct Way {
    std::deque<std::vector<std::byte>> sent;
    std::deque<std::pair<std::span<std::byte>, int*>> expected;
  };
  void match(Way& way) {
    if (failed_) return;  // whoever waited may have gone, and what it would be received in with it
    while (!way.sent.empty() && !way.expected.empty()) {
      const auto& [place, pending] = way.expected.front();
      check(way.sent.front().size() <= place.size(), "a message fits the place where it is received");
      std::ranges::copy(way.sent.front(), place.begin());
      --*pending;
      way.sent.pop_front();
      way.expected.pop_front();
    }
    arrived_.notify_all();
  }

  static constexpr std::chrono::seconds kPatience{60};

  int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, Way> ways_;
  bool failed_ = false;
  std::string failure_;
  ExitCode code_ = ExitCode::kInternal;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Exchange& exchange, int rank) : exchange_(exchange), rank_(rank), host_("here") { reserve(1); }

  int rank() const override { return rank_; }
  int size() const override { return exchange_.size(); }
  const std::string& host(int) const override { return host_; }
  void reserve(std::int64_t tickets) override {
    while (pending_.size() < static_cast<std::size_t>(tickets)) pending_.push_back(std::make_unique<int>(0));
  }
  void begin_send(std::int64_t ticket, int to, std::span<const std::byte> bytes) override {
    check(ticket < static_cast<std::int64_t>(pending_.size()), "a ticket has been made room for");
    exchange_.send(rank_, to, bytes);
    if (after_send) after_send(ticket);
  }
  void begin_receive(std::int64_t ticket, int from, std::span<std::byte> bytes) override {
    exchange_.receive(from, rank_, bytes, pending_.at(static_cast<std::size_t>(ticket)).get());
  }
  bool is_done(std::int64_t) const override { return false; }
  void wait_until_done(std::int64_t ticket) override {
    exchange_.wait(pending_.at(static_cast<std::size_t>(ticket)).get());
  }
  void poll() override {}
  void fail(const Problem& problem, ExitCode code) noexcept override { exchange_.fail(problem.what, code); }

  std::function<void(std::int64_t ticket)> after_send;

 private:
  Exchange& exchange_;
  int rank_;
  std::string host_;
  std::vector<std::unique_ptr<int>> pending_;  // by ticket
};

// Runs `body` once for each rank, at the same time, and throws what the first one to fail has thrown.
inline void run_ranks(int count, const std::function<void(ThreadCommunicator&)>& body) {
  Exchange exchange(count);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator ranks(exchange, rank);
      try {
        body(ranks);
      } catch (...) {
        {
          const std::scoped_lock lock(mutex);
          if (first == nullptr) first = std::current_exception();
        }
        ranks.fail({.what = "a rank has failed"}, ExitCode::kInternal);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace plimsoll::test
