// Loops over OpenMP's team. The assignment of work to threads never changes a result: bodies write disjoint outputs,
// and sums over rows go through blocks of kSumBlock rows that are added in order.
//
//   parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) { use(begin, end); });
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// This many rows are summed into one partial sum; partial sums are added in order. The number is fixed, so that sums do
// not depend on the team.
inline constexpr std::int64_t kSumBlock = 64;

// Calls body(begin, end) once for each thread that has work: [0, count) in contiguous parts whose edges are multiples
// of `grain` (except the last end). Runs on the caller's thread alone if there is at most one grain.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t grains = (count + grain - 1) / grain;
  if (grains <= 0) return;
  const int team = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), grains));
  if (team == 1) {
    body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const std::int64_t members = omp_get_num_threads();
    const std::int64_t member = omp_get_thread_num();
    const std::int64_t begin = grains * member / members * grain;
    const std::int64_t end = std::min(count, grains * (member + 1) / members * grain);
    if (begin < end) body(begin, end);
  }
}

}  // namespace plimsoll
