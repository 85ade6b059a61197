// Memory of the host's that the device reads by itself, through which bytes pass on their way to it: who writes goes on
// at once, and the copy happens when the stream comes to it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "backend/cuda/context.h"

namespace plimsoll::cuda {

class PinnedRing {
 public:
  // Throws EnvironmentError if the host does not give the memory. `context` outlives it.
  PinnedRing(const Context& context, std::size_t bytes);
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  // To device memory, after what the stream was given before and before what it is given next. `from` may change when
  // this returns. Waits only where the ring is full of what the stream has not come to.
  void write(std::span<const std::byte> from, void* to);

 private:
  static constexpr std::size_t kSegments = 8;
  void next_segment();

  const Context& context_;
  std::size_t segment_bytes_;
  PinnedBytes data_;
  std::array<Event, kSegments> copied_;  // all of the segment, when it was last left
  std::size_t segment_ = 0, at_ = 0;
};

}  // namespace plimsoll::cuda
