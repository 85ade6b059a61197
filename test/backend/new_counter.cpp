#include "backend/new_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> g_counting = false;
std::atomic<std::size_t> g_calls = 0, g_bytes = 0, g_largest_bytes = 0;

void count(std::size_t bytes) {
  if (!g_counting) return;
  ++g_calls;
  g_bytes += bytes;
  std::size_t largest = g_largest_bytes;
  while (largest < bytes && !g_largest_bytes.compare_exchange_weak(largest, bytes)) {
  }
}

}  // namespace

// Replaces the program's operator new (the standard allows it); the array forms call these.
void* operator new(std::size_t bytes) {
  count(bytes);
  if (void* place = std::malloc(bytes == 0 ? 1 : bytes)) return place;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  count(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, const std::nothrow_t&) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }

namespace plimsoll::test {

NewCounter::NewCounter() {
  g_calls = 0;
  g_bytes = 0;
  g_largest_bytes = 0;
  g_counting = true;
}
NewCounter::~NewCounter() { g_counting = false; }
std::size_t NewCounter::calls() const { return g_calls; }
std::size_t NewCounter::bytes() const { return g_bytes; }
std::size_t NewCounter::largest_bytes() const { return g_largest_bytes; }

}  // namespace plimsoll::test
