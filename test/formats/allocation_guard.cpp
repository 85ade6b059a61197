#include "formats/allocation_guard.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {
thread_local bool g_watching = false;
thread_local std::size_t g_largest_bytes = 0;
}  // namespace

// Replaces the program's operator new (the standard allows it); the array forms call these.
void* operator new(std::size_t bytes) {
  if (g_watching) g_largest_bytes = std::max(g_largest_bytes, bytes);
  if (void* place = std::malloc(bytes == 0 ? 1 : bytes)) return place;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (g_watching) g_largest_bytes = std::max(g_largest_bytes, bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, const std::nothrow_t&) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }

namespace plimsoll {

AllocationGuard::AllocationGuard() {
  g_largest_bytes = 0;
  g_watching = true;
}
AllocationGuard::~AllocationGuard() { g_watching = false; }
std::size_t AllocationGuard::largest_bytes() const { return g_largest_bytes; }

}  // namespace plimsoll
