// Transfers: how fetch and store nodes (graph/op.h) reach where tensors are offloaded to: a file, or memory of the
// host's.
//
// Requests are carried out one after the other, in the order in which they were begun, beside the computation. So a
// fetch begun after a store of the same place reads what was stored. The bytes of a request belong to it until `wait`
// returns.
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
  std::int64_t ticket = 0;  // below what the queue was made for
  std::uint64_t offset = 0;
  std::span<std::byte> bytes;
  bool writes = false;
  const char* label = "";  // for messages; outlives the request
};

class Transfers {
 public:
  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  virtual ~Transfers() = default;

  // Neither allocates. `begin` may wait for room in the queue.
  virtual void begin(const TransferRequest& request) = 0;
  // Until every request begun with that ticket is done. Throws EnvironmentError if one has failed, whichever it was:
  // what comes after it cannot be trusted.
  virtual void wait(std::int64_t ticket) = 0;
};

// What offloaded tensors live in, and the way there: a file (runtime/transfer_queue.h), or what a backend has for it.
class OffloadStore : public Transfers {
 public:
  // Until nothing is under way. Throws as `wait` does.
  virtual void drain() = 0;
  // The `size` bytes at `offset` in pieces, in order, each shown to `visit`; `changes`: what it leaves there is kept.
  // For the host, between steps. Throws EnvironmentError where the store fails.
  using Visit = std::function<void(std::span<std::byte>)>;
  virtual void visit(std::uint64_t offset, std::size_t size, bool changes, const Visit& visit) = 0;
};

// The kernel of a fetch or store node, the same on every backend: what it begins is the transfers' to do. It runs with
// KernelArguments::transfers set.
std::unique_ptr<Kernel> make_transfer_kernel(const Node& node);

}  // namespace plimsoll
