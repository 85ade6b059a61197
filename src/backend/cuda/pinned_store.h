// Offloaded tensors in the host's memory, pinned: they come and go on a stream of their own while kernels compute.
#pragma once

#include <vector>

#include "backend/cuda/context.h"
#include "backend/transfers.h"

namespace plimsoll::cuda {

class PinnedStore final : public OffloadStore {
 public:
  // Throws EnvironmentError if the host does not give the memory. `context` outlives it.
  PinnedStore(const Context& context, std::uint64_t bytes, std::size_t tickets);
  ~PinnedStore() override;

  // A transfer waits for the kernels that were started before it; kernels started after `wait` wait for it. The host
  // waits for neither, and both may be recorded.
  void begin(const TransferRequest& request) override;
  void wait(std::int64_t ticket) override;
  void drain() override;
  void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) override;

 private:
  const Context& context_;
  PinnedBytes data_;
  Stream stream_;
  Event ready_;              // what a transfer moves, or takes the place of
  std::vector<Event> done_;  // by ticket
};

}  // namespace plimsoll::cuda
