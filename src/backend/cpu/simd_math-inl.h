// Vector functions that several kernels share, compiled once for each Highway target: exp, erf, tanh, Philox, sums.
//
// Every function except those on rows takes the Highway tag `d` first and works on vectors of 32-bit lanes. NaN inputs
// give NaN, so that a diverged run is noticed. Include it after hwy/highway.h in a file that uses foreach_target.h.
//
//   namespace hn = hwy::HWY_NAMESPACE;
//   const hn::ScalableTag<float> d;
//   const auto p = simd_exp(d, hn::Sub(scores, maximum));
#if defined(PLIMSOLL_BACKEND_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_BACKEND_CPU_SIMD_MATH_INL_H_
#undef PLIMSOLL_BACKEND_CPU_SIMD_MATH_INL_H_
#else
#define PLIMSOLL_BACKEND_CPU_SIMD_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(x), relative error below 2e-7. The result is 0 below -87.33 (where it would be subnormal) and +infinity above
// 88.37. It is 2^n times a polynomial fitted (minimax) to exp on [-ln2/2, ln2/2].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V simd_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504F)));
  const V nf = hn::ConvertTo(d, n);
  V r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375F), x);  // ln2 in two parts: the first times n is exact
  r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440e-4F), r);
  V p = hn::Set(d, 0.00138146093F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836871751F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668389F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665211F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994F));
  p = hn::MulAdd(hn::Mul(p, r), r, hn::Add(r, hn::Set(d, 1.0F)));
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  V y = hn::Mul(p, scale);
  y = hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.33F)), hn::Zero(d), y);
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.37F)), hn::Inf(d), y);  // if p is NaN, so is y
}

// erf(x) and exp(-x^2) together (the normal distribution's integral and density share them); erf's absolute error is
// below 1e-7. Up to 1 it is x + x P(x^2); beyond, 1 - exp(-x^2) g(1/(1 + x/2)), the form of Abramowitz and Stegun
// 7.1.26. Both are fitted (minimax) to erf in double precision.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V simd_erf(D d, V x, V& exp_of_minus_square) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const V square = hn::Mul(x, x);
  exp_of_minus_square = simd_exp(d, hn::Neg(square));
  V p = hn::Set(d, 7.889084e-5F);
  p = hn::MulAdd(p, square, hn::Set(d, -0.000802083172F));
  p = hn::MulAdd(p, square, hn::Set(d, 0.00518953439F));
  p = hn::MulAdd(p, square, hn::Set(d, -0.0268544442F));
  p = hn::MulAdd(p, square, hn::Set(d, 0.112836002F));
  p = hn::MulAdd(p, square, hn::Set(d, -0.376126271F));
  p = hn::MulAdd(p, square, hn::Set(d, 0.128379166F));
  const V inner = hn::MulAdd(x, p, x);  // one rounding at full size
  const V t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.5F), one));
  V g = hn::Set(d, -0.203299418F);
  g = hn::MulAdd(g, t, hn::Set(d, 0.556230009F));
  g = hn::MulAdd(g, t, hn::Set(d, 0.0293682441F));
  g = hn::MulAdd(g, t, hn::Set(d, 0.342269778F));
  g = hn::MulAdd(g, t, hn::Set(d, 0.27549195F));
  const V outer = hn::CopySign(hn::NegMulAdd(exp_of_minus_square, hn::Mul(g, t), one), x);
  return hn::IfThenElse(hn::Lt(a, one), inner, outer);
}

// tanh(x), relative error below 4e-7: x + x^3 Q(x^2) up to 0.625, fitted (minimax), and 1 - 2 / (exp(2x) + 1) beyond.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V simd_tanh(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V q = hn::Set(d, -0.00570494635F);
  q = hn::MulAdd(q, square, hn::Set(d, 0.0206390526F));
  q = hn::MulAdd(q, square, hn::Set(d, -0.0537397042F));
  q = hn::MulAdd(q, square, hn::Set(d, 0.133314416F));
  q = hn::MulAdd(q, square, hn::Set(d, -0.333332807F));
  const V inner = hn::MulAdd(hn::Mul(x, square), q, x);
  const V e = simd_exp(d, hn::Add(a, a));
  const V outer = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625F)), inner, outer);
}

// Philox4x32, one counter in each lane: lane i of word0..word3 is philox4x32<kRounds>({c0[i], c1[i], c2[i], c3[i]},
// {key0, key1}). For counters of neighbouring groups, hn::StoreInterleaved4(word0, word1, word2, word3, d, to) writes
// the words in the order of the elements.
template <int kRounds, class D, class V = hn::Vec<D>>
HWY_INLINE void simd_philox4x32(D d, V c0, V c1, V c2, V c3, std::uint32_t key0, std::uint32_t key1, V& word0, V& word1,
                                V& word2, V& word3) {
  // A product of 32-bit words needs a lane of 64 bits, so even and odd counters are processed apart, in the lower
  // words. The upper words never matter: multiplication does not read them, and everything else is bitwise.
  const hn::Repartition<std::uint64_t, D> d64;
  using Wide = hn::Vec<decltype(d64)>;
  const auto upper = [&](V v) HWY_ATTR { return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, v))); };
  V odd0 = upper(c0), odd1 = upper(c1), odd2 = upper(c2), odd3 = upper(c3);
  const V multiplier0 = hn::Set(d, 0xD2511F53U), multiplier1 = hn::Set(d, 0xCD9E8D57U);
  const auto round = [&](V key_0, V key_1, V& w0, V& w1, V& w2, V& w3) HWY_ATTR {
    const Wide product0 = hn::MulEven(w0, multiplier0), product1 = hn::MulEven(w2, multiplier1);
    w0 = hn::Xor(hn::Xor(hn::BitCast(d, hn::ShiftRight<32>(product1)), w1), key_0);
    w2 = hn::Xor(hn::Xor(hn::BitCast(d, hn::ShiftRight<32>(product0)), w3), key_1);
    w1 = hn::BitCast(d, product1);
    w3 = hn::BitCast(d, product0);
  };
  for (int i = 0; i < kRounds; ++i) {
    const V key_0 = hn::Set(d, key0), key_1 = hn::Set(d, key1);
    round(key_0, key_1, c0, c1, c2, c3);
    round(key_0, key_1, odd0, odd1, odd2, odd3);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const auto join = [&](V odd, V even) HWY_ATTR {
    return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(d64, odd))), even);
  };
  word0 = join(odd0, c0);
  word1 = join(odd1, c1);
  word2 = join(odd2, c2);
  word3 = join(odd3, c3);
}

// Returns the sum of all lanes as a scalar.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::TFromD<D> simd_sum(D d, V v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// Returns the sum of a[i] b[i]: in four independent sums, so that the additions overlap.
inline float row_dot(const float* a, const float* b, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  float sum = simd_sum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// y += factor x
inline void row_add(float factor, const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(factors, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  }
  for (; i < count; ++i) y[i] += factor * x[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#endif  // per target
