// The bits that decide which elements of a row dropout keeps (base/dropout.h), as many at a time as one Philox call in
// each lane gives. Included once for each vector target, after highway.h and simd_math-inl.h.
#include "backend/cpu/row_dropout.h"

#if defined(PLIMSOLL_BACKEND_CPU_DROPOUT_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_DROPOUT_BITS_INL_H_
#undef PLIMSOLL_BACKEND_CPU_DROPOUT_BITS_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_DROPOUT_BITS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Draws for columns() columns at a time, from column `first` on of a row.
class DropoutBits {
 public:
  static constexpr hn::ScalableTag<std::uint32_t> du{};
  static constexpr hn::ScalableTag<float> d{};

  static std::size_t columns() { return 8 * hn::Lanes(d); }

  HWY_INLINE void draw(const RowDropout& of, std::size_t row, std::size_t first) {
    const std::int32_t* const row_keys = of.row_keys + 2 * row;
    auto w0 = hn::Zero(du), w1 = w0, w2 = w0, w3 = w0;
    simd_philox4x32<kDropoutRounds>(du, hn::Set(du, static_cast<std::uint32_t>(row_keys[1])),
                                    hn::Iota(du, static_cast<std::uint32_t>(first / 8)), hn::Set(du, of.site),
                                    hn::Set(du, static_cast<std::uint32_t>(row_keys[0])), of.key[0], of.key[1], w0, w1,
                                    w2, w3);
    HWY_ALIGN std::uint32_t words[4 * hn::MaxLanes(du)];
    hn::StoreInterleaved4(w0, w1, w2, w3, du, words);
    std::memcpy(bits_, words, 16 * hn::Lanes(du));  // the lower half of a word comes first, as in memory
  }

  // Returns x after dropout: a vector whose first column is `at` columns after `first`, or one column. For a vector,
  // `at` is a multiple of the lanes.
  HWY_INLINE hn::Vec<hn::ScalableTag<float>> drop(const RowDropout& of, std::size_t at,
                                                  hn::Vec<hn::ScalableTag<float>> x) const {
    const hn::Rebind<std::uint16_t, hn::ScalableTag<std::uint32_t>> du16;
    const auto drops =
        hn::RebindMask(d, hn::Lt(hn::PromoteTo(du, hn::Load(du16, bits_ + at)), hn::Set(du, of.threshold)));
    return hn::IfThenZeroElse(drops, hn::Mul(x, hn::Set(d, of.scale)));
  }
  HWY_INLINE float drop_one(const RowDropout& of, std::size_t at, float x) const {
    return bits_[at] >= of.threshold ? x * of.scale : 0.0F;
  }

 private:
  HWY_ALIGN std::uint16_t bits_[8 * hn::MaxLanes(hn::ScalableTag<std::uint32_t>())];
};

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif
