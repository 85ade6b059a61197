#include "backend/cuda/pinned_ring.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace plimsoll::cuda {

PinnedRing::PinnedRing(const Context& context, std::size_t bytes)
    : context_(context),
      segment_bytes_(round_up(bytes / kSegments, 256)),
      data_(kSegments * segment_bytes_, "to be read by the device") {}

PinnedRing::~PinnedRing() { cudaStreamSynchronize(context_.stream()); }

void PinnedRing::next_segment() {
  copied_[segment_].record(context_.stream());
  segment_ = (segment_ + 1) % kSegments;
  at_ = 0;
  copied_[segment_].wait();
}

void PinnedRing::write(std::span<const std::byte> from, void* to) {
  auto* next = static_cast<std::byte*>(to);
  while (!from.empty()) {
    if (at_ == segment_bytes_) next_segment();
    const std::size_t size = std::min(from.size(), segment_bytes_ - at_);
    std::byte* const staged = data_.bytes().data() + segment_ * segment_bytes_ + at_;
    std::memcpy(staged, from.data(), size);
    check_cuda(cudaMemcpyAsync(next, staged, size, cudaMemcpyHostToDevice, context_.stream()), "a copy to the device");
    from = from.subspan(size);
    next += size;
    at_ = std::min(round_up(at_ + size, 16), segment_bytes_);
  }
}

}  // namespace plimsoll::cuda
