#include "backend/cuda/copy_ring.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace plimsoll::cuda {

CopyRing::CopyRing(const Context& context, std::size_t bytes)
    : context_(context),
      segment_bytes_(round_up(bytes / kSegments, 256)),
      host_(kSegments * segment_bytes_, "to be read by the device"),
      device_(kSegments * segment_bytes_) {}

CopyRing::~CopyRing() { context_.drain(context_.stream()); }  // which waits for stream_

void CopyRing::next_segment() {
  taken_[segment_].record(context_.stream());
  segment_ = (segment_ + 1) % kSegments;
  at_ = 0;
  context_.wait(taken_[segment_], "a copy to the device");
}

void CopyRing::write(std::span<const std::byte> from, void* to) {
  const auto copy = [](void* target, const void* source, std::size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    check_cuda(cudaMemcpyAsync(target, source, size, kind, stream), "a copy to the device");
  };
  auto* next = static_cast<std::byte*>(to);
  while (!from.empty()) {
    if (at_ == segment_bytes_) next_segment();
    const std::size_t size = std::min(from.size(), segment_bytes_ - at_), place = segment_ * segment_bytes_ + at_;
    std::byte* const here = host_.bytes().data() + place;
    std::memcpy(here, from.data(), size);
    if (size < kStagedBytes) {
      copy(next, here, size, cudaMemcpyHostToDevice, context_.stream());
    } else {
      std::byte* const there = device_.bytes().data() + place;
      copy(there, here, size, cudaMemcpyHostToDevice, stream_.get());
      arrived_.record(stream_.get());
      check_cuda(cudaStreamWaitEvent(context_.stream(), arrived_.get(), 0), "a copy to the device");
      copy(next, there, size, cudaMemcpyDeviceToDevice, context_.stream());
    }
    from = from.subspan(size);
    next += size;
    at_ = std::min(round_up(at_ + size, 16), segment_bytes_);
  }
}

}  // namespace plimsoll::cuda
