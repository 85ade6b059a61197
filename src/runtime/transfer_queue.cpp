#include "runtime/transfer_queue.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kRing = 256;

}  // namespace

TransferQueue::TransferQueue(OffloadFile& file, std::size_t tickets)
    : file_(file), ring_(kRing), last_of_(tickets, 0), thread_([this] { work(); }) {}

TransferQueue::~TransferQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void TransferQueue::begin(const TransferRequest& request) {
  std::unique_lock lock(mutex_);
  const auto ticket = static_cast<std::size_t>(request.ticket);
  check(ticket < last_of_.size(), "a ticket is one that the queue was made for");
  done_.wait(lock, [&] { return begun_ - finished_ < ring_.size(); });
  ring_[begun_++ % ring_.size()] = request;
  last_of_[ticket] = begun_;
  lock.unlock();
  work_.notify_one();
}

void TransferQueue::wait(std::int64_t ticket) {
  std::unique_lock lock(mutex_);
  const std::uint64_t last = last_of_.at(static_cast<std::size_t>(ticket));
  done_.wait(lock, [&] { return finished_ >= last; });
  throw_if_failed();
}

void TransferQueue::drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return finished_ == begun_; });
  throw_if_failed();
}

void TransferQueue::visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) {
  drain();
  file_.visit(offset, size, changes, visit);
}

void TransferQueue::throw_if_failed() const {
  if (error_ == 0) return;
  throw_offload_error(file_.where(failed_.offset),
                      fmt::format("{} at '{}', {} at {}", failed_.writes ? "writing" : "reading", failed_.label,
                                  counted(failed_.bytes.size(), "byte"), failed_.offset),
                      error_);
}

void TransferQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stop_ || finished_ < begun_; });
    if (stop_) return;
    const TransferRequest request = ring_[finished_ % ring_.size()];
    const bool skips = error_ != 0;
    lock.unlock();
    const int error = skips            ? 0
                      : request.writes ? file_.write(request.offset, request.bytes)
                                       : file_.read(request.offset, request.bytes);
    lock.lock();
    if (error != 0) {
      error_ = error;
      failed_ = request;
    }
    ++finished_;
    done_.notify_all();
  }
}

}  // namespace plimsoll
