// The way of bytes from the host to the device: who writes goes on at once, and while the device computes what it was
// given before, a stream of their own brings them into a staging buffer there. The stream of kernels copies them on
// when it comes to them, which takes a hundredth of the time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "backend/cuda/context.h"

namespace plimsoll::cuda {

class CopyRing {
 public:
  // As many bytes of the host's, pinned, as of the device's. Throws EnvironmentError if one does not give them.
  // `context` outlives it.
  CopyRing(const Context& context, std::size_t bytes);
  ~CopyRing();
  CopyRing(const CopyRing&) = delete;
  CopyRing& operator=(const CopyRing&) = delete;

  // To device memory, after what the stream of kernels was given before and before what it is given next. `from` may
  // change when this returns. Waits only where the ring is full of what that stream has not come to.
  void write(std::span<const std::byte> from, void* to);

 private:
  static constexpr std::size_t kSegments = 8;
  // Smaller ones do without the staging buffer: two streams that wait for one another cost more than the copy.
  static constexpr std::size_t kStagedBytes = std::size_t{32} << 10;
  void next_segment();

  const Context& context_;
  std::size_t segment_bytes_;
  PinnedBytes host_;
  DeviceBytes device_;
  Stream stream_;
  Event arrived_;                       // on stream_
  std::array<Event, kSegments> taken_;  // all of the segment, by kernels' stream, when it was last left
  std::size_t segment_ = 0, at_ = 0;
};

}  // namespace plimsoll::cuda
