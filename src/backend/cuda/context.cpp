#include "backend/cuda/context.h"

#include <optional>

#include "backend/cuda/copy_ring.h"
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
  const Context& context_;
  std::optional<DeviceBytes> data_;
  mutable std::optional<CopyRing> ring_;
};

std::unique_ptr<DeviceMemory> Context::allocate(std::size_t bytes) const {
  return std::make_unique<ArenaMemory>(*this, bytes);
}

}  // namespace plimsoll::cuda
