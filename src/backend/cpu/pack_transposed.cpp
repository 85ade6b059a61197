#include "backend/cpu/pack_transposed.h"

#include "backend/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/pack_transposed.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h:
#include "backend/cpu/simd_transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
// Packs one block of kPackedColumns columns, kRun elements of a row at a time: long enough for the prefetcher, and the
// output fits L1.
void pack_block(const float* weight, std::size_t inner, float* packed) {
  constexpr std::size_t kRun = 64;
  for (std::size_t run = 0; run < inner; run += kRun) {
    const std::size_t end = run + kRun < inner ? run + kRun : inner;
    for (std::size_t j = 0; j < kPackedColumns; j += 4) {
      for (std::size_t k = run; k < end; k += 4) {
        transpose_four(weight + j * inner + k, inner, packed + k * kPackedColumns + j, kPackedColumns);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {

HWY_EXPORT(pack_block);

void pack_transposed(const float* weight, std::int64_t inner, std::int64_t columns, float* packed) {
  const auto pack = HWY_DYNAMIC_DISPATCH(pack_block);
  parallel_for(columns / kPackedColumns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t start = block * kPackedColumns * inner;  // offset of the block's rows, and of its packed form
      pack(weight + start, static_cast<std::size_t>(inner), packed + start);
    }
  });
}

}  // namespace plimsoll
#endif  // HWY_ONCE
