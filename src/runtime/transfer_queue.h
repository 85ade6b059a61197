// TransferQueue: the thread that moves tensors between an arena and an offload file while the kernels compute.
//
// It has one thread and one first-in-first-out queue. Everything is allocated when it is made; neither the step loop
// nor the thread allocates. After a failure nothing more is moved, and every wait throws.
//
//   TransferQueue queue(file, tickets);
//   Program program(std::move(prepared), plan, arena, &queue);
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/transfers.h"
#include "base/offload_file.h"

namespace plimsoll {

class TransferQueue final : public OffloadStore {
 public:
  // `tickets` must exceed the largest ticket of any program. `file` must outlive the queue, and nobody else may use it
  // while requests are pending.
  TransferQueue(OffloadFile& file, std::size_t tickets);
  // Drops requests that have not begun and waits for the one in progress.
  ~TransferQueue() override;

  void begin(const TransferRequest& request) override;
  void wait(std::int64_t ticket) override;
  void drain() override;
  void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) override;

 private:
  void work();
  void throw_if_failed() const;

  OffloadFile& file_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<TransferRequest> ring_;
  std::vector<std::uint64_t> last_of_;      // by ticket: requests begun up to and including its last one
  std::uint64_t begun_ = 0, finished_ = 0;  // requests since the start
  bool stop_ = false;
  int error_ = 0;  // of the first request that failed
  TransferRequest failed_;
  std::thread thread_;  // the last member: everything else exists when it starts
};

}  // namespace plimsoll
