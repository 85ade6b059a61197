// Private floats for each thread of the team, in a kernel's scratch.
//
//   const ThreadFloats sums(layout, columns);                   // as the node is prepared
//   const auto run = [=](const KernelArguments& a) {            // on any thread of the team
//     std::fill_n(sums.own(a), columns, 0.0F);
//   };
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/scratch.h"

namespace plimsoll {

class ThreadFloats {
 public:
  ThreadFloats(ScratchLayout& layout, std::int64_t count)
      : at_(layout.add<float>(padded(count) * std::max(1, omp_get_max_threads()))), count_(padded(count)) {}

  float* own(const KernelArguments& a) const { return scratch_at<float>(a, at_) + omp_get_thread_num() * count_; }

 private:
  // Rounds up so that each thread's floats begin at the alignment of a tensor.
  static constexpr std::int64_t padded(std::int64_t count) {
    constexpr auto kUnit = static_cast<std::int64_t>(kAlignmentBytes / sizeof(float));
    return (count + kUnit - 1) / kUnit * kUnit;
  }

  std::size_t at_;
  std::int64_t count_;
};

}  // namespace plimsoll
