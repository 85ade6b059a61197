#include "backend/cuda/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/cuda/pinned_ring.h"
#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::cuda {

void check_cuda(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // else the next kernel's start would be taken for what failed
  throw EnvironmentError({.what = fmt::format("the GPU refused: {}", doing),
                          .found = cudaGetErrorString(error),
                          .remedy = "plimsoll doctor shows the device, its driver and who holds its memory"});
}

class ArenaMemory final : public DeviceMemory {
 public:
  ArenaMemory(const Context& context, std::size_t bytes) : context_(context), bytes_(bytes) {
    if (bytes == 0) return;
    context.gpu().check_room(bytes);
    void* address = nullptr;
    check_cuda(cudaMalloc(&address, bytes), fmt::format("{} of device memory", format_bytes(bytes)));
    data_ = static_cast<std::byte*>(address);
    context_.allocated_bytes_ += bytes;
    ring_.emplace(context, std::clamp(bytes / 64, kLeastRing, kMostRing));
    fill_zeros(this->bytes());
  }
  ~ArenaMemory() override {
    ring_.reset();
    cudaFree(data_);
    if (data_ != nullptr) context_.allocated_bytes_ -= bytes_;
  }

  std::span<std::byte> bytes() const override { return {data_, bytes_}; }
  bool is_host() const override { return false; }
  void write(std::span<const std::byte> from, void* to) const override {
    if (!from.empty()) ring_->write(from, to);
  }
  void read(const void* from, std::span<std::byte> to) const override {
    if (to.empty()) return;
    check_cuda(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, context_.stream()),
               "a copy from the device");
    check_cuda(cudaStreamSynchronize(context_.stream()), "a copy from the device");
  }
  void fill_zeros(std::span<std::byte> bytes) const override {
    if (bytes.empty()) return;
    check_cuda(cudaMemsetAsync(bytes.data(), 0, bytes.size(), context_.stream()), "zeros in device memory");
    check_cuda(cudaStreamSynchronize(context_.stream()), "zeros in device memory");
  }

 private:
  // Enough for the inputs of a step, which are a small part of what it needs, so that writing them seldom waits.
  static constexpr std::size_t kLeastRing = std::size_t{4} << 20, kMostRing = std::size_t{64} << 20;

  const Context& context_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  mutable std::optional<PinnedRing> ring_;
};

Context::Context(int device) : gpu_(device) { check_cuda(cudaStreamCreate(&stream_), "a stream"); }
Context::~Context() { cudaStreamDestroy(stream_); }

std::unique_ptr<DeviceMemory> Context::allocate(std::size_t bytes) const {
  return std::make_unique<ArenaMemory>(*this, bytes);
}

}  // namespace plimsoll::cuda
