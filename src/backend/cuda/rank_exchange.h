// RankExchange: moves tensors between the GPUs of a run's ranks, by NCCL, on its own stream, while the stream of
// kernels continues. The messages from one rank to another are matched in the order in which both begin them.
//
// Invariant: the host waits for no message, and a recorded step may contain exchanges, if all ranks record it.
//
//   exchange.begin();                     // after what kernels were started before
//   exchange.next(1);
//   exchange.send(bytes, 1);
//   exchange.receive(staging, 1);
//   exchange.end(ticket);
//   exchange.wait(ticket);                // kernels that are started from here on find what has arrived
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/nccl.h"
#include "ranks/communicator.h"

namespace plimsoll::cuda {

class RankExchange {
 public:
  // Connects the GPUs of all ranks; every rank makes one at the same time. `ranks` distributes NCCL's id, reports ranks
  // that fail, and, like `context`, must outlive this object. Sends something to every rank, because NCCL allocates its
  // memory at the first message, which may not be captured. Throws EnvironmentError if two ranks have the same GPU or
  // different versions of NCCL, or if NCCL does not connect them.
  RankExchange(const Context& context, const Nccl& nccl, Communicator& ranks, std::chrono::milliseconds timeout);
  ~RankExchange();
  RankExchange(const RankExchange&) = delete;
  RankExchange& operator=(const RankExchange&) = delete;

  int rank() const { return ranks_.rank(); }
  int ranks() const { return ranks_.size(); }
  Communicator& communicator() const { return ranks_; }
  cudaStream_t stream() const { return stream_.get(); }
  // Returns the device memory that NCCL has taken for the connections.
  std::size_t device_bytes() const { return device_bytes_; }
  // Returns how many exchanges were begun, which shows whether a recorded step has any.
  std::uint64_t begun() const { return begun_; }

  // Makes room for this ticket.
  void reserve(std::int64_t ticket);

  void begin();
  // `rows`: see Communicator::send. Messages must not be empty.
  void send(std::span<const std::byte> bytes, int to, bool rows = false);
  void receive(std::span<std::byte> bytes, int from, bool rows = false);
  // Allows the following messages to be sent in another group than the previous ones: NCCL limits the size of a group.
  // All ranks call it at the same places, with the largest number of messages to any other rank, or from it, until the
  // next call.
  void next(int messages);
  // Kernels that are launched on stream() from here on can read what has arrived so far.
  void flush() { close_group(); }
  void end(std::int64_t ticket);
  void wait(std::int64_t ticket) const;

  // Called by a host that has waited this long for the device: throws RankError if another rank has failed, or if the
  // time is up. The device then no longer waits for other ranks.
  void watch(std::chrono::steady_clock::duration waited);
  void abort() noexcept;

 private:
  void check_nccl(int result, const char* doing) const;
  [[noreturn]] void throw_lost(const std::string& found);
  void open_group();
  void close_group();
  void say_hello();

  const Context& context_;
  Nccl nccl_;
  Communicator& ranks_;
  std::chrono::milliseconds timeout_;
  std::string library_;  // "NCCL 2.22.3"
  NcclComm comm_ = nullptr;
  Stream stream_;
  Event ready_;                               // the data to be sent, or overwritten, is ready
  std::vector<std::unique_ptr<Event>> done_;  // by ticket
  bool in_group_ = false;
  int calls_ = 0;  // at most, in the open group; the same number on all ranks
  std::uint64_t begun_ = 0;
  std::size_t device_bytes_ = 0;
};

}  // namespace plimsoll::cuda
