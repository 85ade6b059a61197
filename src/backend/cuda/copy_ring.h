// Copies bytes from the host to the device without waiting: while the device still works on earlier kernels, a separate
// stream copies the bytes into a staging buffer on the device. In its turn, the stream of kernels copies them to their
// place, which takes a hundredth of the time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "backend/cuda/context.h"

namespace plimsoll::cuda {

class CopyRing {
 public:
  // Allocates this many bytes on the device and as many, pinned, on the host. Throws EnvironmentError if one of them
  // fails. `context` must outlive this object.
  CopyRing(const Context& context, std::size_t bytes);
  ~CopyRing();
  CopyRing(const CopyRing&) = delete;
  CopyRing& operator=(const CopyRing&) = delete;

  // Writes to device memory, after all earlier work of the stream of kernels and before all later work. `from` may
  // change when this returns. Waits only if the ring is full of bytes that the stream has not copied yet.
  void write(std::span<const std::byte> from, void* to);

 private:
  static constexpr std::size_t kSegments = 8;
  // Smaller writes bypass the staging buffer: two streams that wait for each other cost more than the copy.
  static constexpr std::size_t kStagedBytes = std::size_t{32} << 10;
  void next_segment();

  const Context& context_;
  std::size_t segment_bytes_;
  PinnedBytes host_;
  DeviceBytes device_;
  Stream stream_;
  Event arrived_;                       // on stream_
  std::array<Event, kSegments> taken_;  // on the kernels' stream: the segment was copied when it was last left
  std::size_t segment_ = 0, at_ = 0;
};

}  // namespace plimsoll::cuda
