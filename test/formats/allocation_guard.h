// Records the largest single C++ allocation while a guard lives: an inconsistent file must not make a reader ask for
// more than the file could hold.
#pragma once

#include <cstddef>

namespace plimsoll {

class AllocationGuard {
 public:
  AllocationGuard();
  ~AllocationGuard();
  AllocationGuard(const AllocationGuard&) = delete;
  AllocationGuard& operator=(const AllocationGuard&) = delete;
  std::size_t largest_bytes() const;
};

}  // namespace plimsoll
