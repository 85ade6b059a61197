#include "backend/cuda/pinned_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace plimsoll::cuda {

PinnedRing::PinnedRing(const Context& context, std::size_t bytes)
    : context_(context), segment_bytes_(round_up(bytes / kSegments, 256)) {
  void* address = nullptr;
  check_cuda(
      cudaMallocHost(&address, kSegments * segment_bytes_),
      fmt::format("{} of the host's memory, to be read by the device", format_bytes(kSegments * segment_bytes_)));
  data_ = static_cast<std::byte*>(address);
  for (cudaEvent_t& event : copied_) check_cuda(cudaEventCreate(&event), "an event");
}

PinnedRing::~PinnedRing() {
  cudaStreamSynchronize(context_.stream());
  for (const cudaEvent_t event : copied_) cudaEventDestroy(event);
  cudaFreeHost(data_);
}

void PinnedRing::next_segment() {
  check_cuda(cudaEventRecord(copied_[segment_], context_.stream()), "an event");
  segment_ = (segment_ + 1) % kSegments;
  at_ = 0;
  check_cuda(cudaEventSynchronize(copied_[segment_]), "copies to the device");
}

void PinnedRing::write(std::span<const std::byte> from, void* to) {
  auto* next = static_cast<std::byte*>(to);
  while (!from.empty()) {
    if (at_ == segment_bytes_) next_segment();
    const std::size_t size = std::min(from.size(), segment_bytes_ - at_);
    std::byte* const staged = data_ + segment_ * segment_bytes_ + at_;
    std::memcpy(staged, from.data(), size);
    check_cuda(cudaMemcpyAsync(next, staged, size, cudaMemcpyHostToDevice, context_.stream()), "a copy to the device");
    from = from.subspan(size);
    next += size;
    at_ = std::min(round_up(at_ + size, 16), segment_bytes_);
  }
}

}  // namespace plimsoll::cuda
