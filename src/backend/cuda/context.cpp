#include "backend/cuda/context.h"

#include <chrono>
#include <exception>
#include <optional>
#include <thread>

#include "backend/cuda/copy_ring.h"
#include "backend/cuda/rank_exchange.h"
#include "backend/cuda/sizes/sizes.h"

namespace plimsoll::cuda {

class ArenaMemory final : public DeviceMemory {
 public:
  ArenaMemory(const Context& context, std::size_t bytes) : context_(context) {
    if (bytes == 0) return;
    const std::size_t ring_bytes = copy_ring_bytes(bytes);
    context.gpu().check_room(bytes + ring_bytes);
    data_.emplace(bytes);
    ring_.emplace(context, ring_bytes);
    fill_zeros(data_->bytes());
    context_.allocated_bytes_ += bytes + ring_bytes;
  }
  ~ArenaMemory() override { context_.allocated_bytes_ -= bytes().size() + copy_ring_bytes(bytes().size()); }

  std::span<std::byte> bytes() const override { return data_ ? data_->bytes() : std::span<std::byte>(); }
  bool is_host() const override { return false; }
  void write(std::span<const std::byte> from, void* to) const override {
    if (!from.empty()) ring_->write(from, to);
  }
  void read(const void* from, std::span<std::byte> to) const override {
    if (to.empty()) return;
    // The copy itself waits for kernels, and cannot watch other ranks.
    if (context_.exchange() != nullptr) context_.wait(context_.stream(), "a copy from the device");
    check_cuda(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, context_.stream()),
               "a copy from the device");
    check_cuda(cudaStreamSynchronize(context_.stream()), "a copy from the device");
  }
  void fill_zeros(std::span<std::byte> bytes) const override {
    if (bytes.empty()) return;
    check_cuda(cudaMemsetAsync(bytes.data(), 0, bytes.size(), context_.stream()), "zeros in device memory");
    context_.wait(context_.stream(), "zeros in device memory");
  }

 private:
  const Context& context_;
  std::optional<DeviceBytes> data_;
  mutable std::optional<CopyRing> ring_;
};

namespace {

// `query` says whether the work is done.
template <typename Query>
void wait_among_ranks(RankExchange& exchange, std::string_view doing, const Query& query) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t idle = 0;; ++idle) {
    const cudaError_t error = query();
    if (error != cudaErrorNotReady) return check_cuda(error, doing);
    cudaGetLastError();  // "not ready" must not become an error of the next call
    if (idle % 64 == 63) exchange.watch(std::chrono::steady_clock::now() - begin);
    if (idle > 4096) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

Context::Fork::Fork(const Context& context, const Stream& to, const Event& begin) : context_(context) {
  begin.record(context.stream_.get());
  check_cuda(cudaStreamWaitEvent(to.get(), begin.get(), 0), "kernels beside others");
  context.forked_to_ = to.get();
}

void Context::wait(cudaStream_t stream, std::string_view doing) const {
  if (exchange_ == nullptr) return check_cuda(cudaStreamSynchronize(stream), doing);
  wait_among_ranks(*exchange_, doing, [&] { return cudaStreamQuery(stream); });
}

void Context::wait(const Event& event, std::string_view doing) const {
  if (exchange_ == nullptr) return check_cuda(cudaEventSynchronize(event.get()), doing);
  wait_among_ranks(*exchange_, doing, [&] { return cudaEventQuery(event.get()); });
}

void Context::drain(cudaStream_t stream) const noexcept {
  if (exchange_ != nullptr) {
    // What runs now may wait for a rank that has ended, and its results are not needed after an error.
    if (std::uncaught_exceptions() > 0) exchange_->abort();
    try {
      wait(stream, "what is left");
    } catch (...) {
      exchange_->abort();
    }
  }
  cudaStreamSynchronize(stream);
}

std::unique_ptr<DeviceMemory> Context::allocate(std::size_t bytes) const {
  return std::make_unique<ArenaMemory>(*this, bytes);
}

}  // namespace plimsoll::cuda
