// ScratchLayout: divides a kernel's scratch into parts while it is prepared; each part starts on kAlignmentBytes.
//
//   ScratchLayout layout;
//   const std::size_t keys_at = layout.add<std::int32_t>(count);          // in the factory; layout.bytes() is declared
//   std::int32_t* keys = scratch_at<std::int32_t>(arguments, keys_at);    // in run
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "base/bytes.h"

namespace plimsoll {

class ScratchLayout {
 public:
  // Returns the offset of a new part for `count` elements of T.
  template <typename T>
  std::size_t add(std::int64_t count) {
    return add_bytes(static_cast<std::size_t>(count) * sizeof(T));
  }
  std::size_t add_bytes(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += round_up(bytes, kAlignmentBytes);
    return offset;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

template <typename T>
T* scratch_at(const KernelArguments& arguments, std::size_t offset) {
  return reinterpret_cast<T*>(arguments.scratch.data() + offset);
}

}  // namespace plimsoll
