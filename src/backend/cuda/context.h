// The device and the stream that a backend's kernels are started on.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/handles.h"

namespace plimsoll::cuda {

class RankExchange;

class Context {
 public:
  explicit Context(int device) : gpu_(device) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The stream on which kernels are started: one alone, but for what a Fork starts.
  cudaStream_t stream() const { return forked_to_ == nullptr ? stream_.get() : forked_to_; }
  // While it lives, kernels are started on another stream, behind all that the first was given before, which `begin`
  // marks.
  class Fork {
   public:
    Fork(const Context& context, const Stream& to, const Event& begin);
    ~Fork() { context_.forked_to_ = nullptr; }
    Fork(const Fork&) = delete;
    Fork& operator=(const Fork&) = delete;

   private:
    const Context& context_;
  };
  // 75, 80, 90: the device's compute capability without its dot.
  int architecture() const { return gpu_.architecture(); }
  const Gpu& gpu() const { return gpu_; }
  // One allocation, zeroed.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) const;
  std::size_t allocated_bytes() const { return allocated_bytes_; }

  // The exchange between ranks; nullptr: there is one rank.
  RankExchange* exchange() const { return exchange_; }
  void use(RankExchange* exchange) { exchange_ = exchange; }
  // The host waits for what a stream was given, or for an event. With several ranks it looks after the others
  // meanwhile, and throws RankError if one has failed: the device then waits for that one no more.
  void wait(cudaStream_t stream, std::string_view doing) const;
  void wait(const Event& event, std::string_view doing) const;
  // The same before memory that streams use is freed, whatever happened; does not throw.
  void drain(cudaStream_t stream) const noexcept;

 private:
  friend class ArenaMemory;

  Gpu gpu_;
  Stream stream_;
  mutable cudaStream_t forked_to_ = nullptr;
  mutable std::size_t allocated_bytes_ = 0;  // in allocations that live
  RankExchange* exchange_ = nullptr;
};

}  // namespace plimsoll::cuda
