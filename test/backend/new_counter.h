// Counts C++ heap allocations in all threads while a counter lives: kernels allocate nothing while running.
#pragma once

#include <cstddef>

namespace plimsoll::test {

class NewCounter {
 public:
  NewCounter();
  ~NewCounter();
  NewCounter(const NewCounter&) = delete;
  NewCounter& operator=(const NewCounter&) = delete;
  std::size_t calls() const;
  std::size_t bytes() const;  // for all calls together, freed or not
  std::size_t largest_bytes() const;
};

}  // namespace plimsoll::test
