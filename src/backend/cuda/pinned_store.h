// Offloaded tensors in pinned host memory: one stream copies them to the host and another one back while kernels
// compute, so that the device copies both ways at once.
#pragma once

#include <vector>

#include "backend/cuda/context.h"
#include "backend/transfers.h"

namespace plimsoll::cuda {

class PinnedStore final : public OffloadStore {
 public:
  // Throws EnvironmentError if the host refuses the memory. `context` must outlive this object.
  PinnedStore(const Context& context, std::uint64_t bytes, std::size_t tickets);
  ~PinnedStore() override;

  // A transfer waits for the kernels that were launched before it; kernels launched after `wait` wait for it. The host
  // waits for neither, and both may be recorded.
  void begin(const TransferRequest& request) override;
  void wait(std::int64_t ticket) override;
  void drain() override;
  void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) override;

 private:
  const Context& context_;
  PinnedBytes data_;
  Stream here_, there_;      // to the host, to the device
  Event ready_;              // the data that a transfer moves, or overwrites, is ready
  std::vector<Event> done_;  // by ticket
  // Tickets that were begun and not waited for, each with the range of places that its transfers cover.
  struct Begun {
    std::int64_t ticket;
    std::uint64_t begin, end;
    bool writes;
  };
  std::vector<Begun> begun_;
};

}  // namespace plimsoll::cuda
