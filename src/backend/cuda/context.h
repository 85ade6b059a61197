// The device and the stream on which a backend's kernels are launched.
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

  // The stream on which kernels are launched: always the same one, except while a Fork lives.
  cudaStream_t stream() const { return forked_to_ == nullptr ? stream_.get() : forked_to_; }
  // While it lives, kernels are launched on another stream, after all earlier work of the first stream, which `begin`
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
  // Makes one allocation, zeroed.
  std::unique_ptr<DeviceMemory> allocate(std::size_t bytes) const;
  std::size_t allocated_bytes() const { return allocated_bytes_; }

  // The exchange between ranks; nullptr: there is one rank.
  RankExchange* exchange() const { return exchange_; }
  void use(RankExchange* exchange) { exchange_ = exchange; }
  // Makes the host wait for all work of a stream, or for an event. With several ranks it watches the others meanwhile,
  // and throws RankError if one has failed: the device then no longer waits for that rank.
  void wait(cudaStream_t stream, std::string_view doing) const;
  void wait(const Event& event, std::string_view doing) const;
  // Does the same before memory that streams use is freed, even after errors; does not throw.
  void drain(cudaStream_t stream) const noexcept;

 private:
  friend class ArenaMemory;

  Gpu gpu_;
  Stream stream_;
  mutable cudaStream_t forked_to_ = nullptr;
  mutable std::size_t allocated_bytes_ = 0;  // in allocations that are alive
  RankExchange* exchange_ = nullptr;
};

}  // namespace plimsoll::cuda
