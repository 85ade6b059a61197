// Transfers: how fetch and store nodes (graph/op.h) access offloaded tensors, in a file or in the host's
// memory.
//
// Requests are carried out in the order in which they were begun, while kernels compute, so a fetch that begins after a
// store to the same place reads what was stored. A request owns its bytes until `wait` returns.
//
//   transfers.begin({.ticket = 3, .offset = 8192, .bytes = tensor, .writes = false, .label = "a.update:fetch"});
//   transfers.wait(3);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace plimsoll {

struct TransferRequest {
  std::int64_t ticket = 0;  // below the queue's number of tickets
  std::uint64_t offset = 0;
  std::span<std::byte> bytes;
  bool writes = false;
  const char* label = "";  // for messages; must outlive the request
};

class Transfers {
 public:
  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  virtual ~Transfers() = default;

  // Neither function allocates. `begin` may wait for room in the queue.
  virtual void begin(const TransferRequest& request) = 0;
  // Waits until every request begun with that ticket is done. Throws EnvironmentError if any request has failed,
  // because later ones cannot be trusted.
  virtual void wait(std::int64_t ticket) = 0;
};

// The storage of offloaded tensors and the access to it: a file (runtime/transfer_queue.h), or a backend's own.
class OffloadStore : public Transfers {
 public:
  // Waits until no request is pending. Throws as `wait` does.
  virtual void drain() = 0;
  // Passes the `size` bytes at `offset` to `visit` in pieces, in order; with `changes`, its changes are kept. For the
  // host, between steps. Throws EnvironmentError if the store fails.
  using Visit = std::function<void(std::span<std::byte>)>;
  virtual void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) = 0;
};

// Makes the kernel of a fetch or store node, the same on every backend: it only passes requests to the transfers. It
// runs with KernelArguments::transfers set.
std::unique_ptr<Kernel> make_transfer_kernel(const Node& node);

}  // namespace plimsoll
