// Elementary functions on vectors of floats, with errors of a few units in the last place over the whole range and
// correct special values (tests/backends/cpu/tile/functions_test.cpp compares them with double). Highway's contrib/math
// returns 0 for exp(NaN) and a finite number for exp(inf) and log(0). Included once for each vector width.

#if defined(RIDGEPOINT_TILE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGEPOINT_TILE_MATH_INL_H_
#undef RIDGEPOINT_TILE_MATH_INL_H_
#else
#define RIDGEPOINT_TILE_MATH_INL_H_
#endif

#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x times 2^n for an integer n in [-252, 254].
template <class D, class V>
HWY_INLINE V scale_by_power(D d, V x, V n) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  (void)d;
  return V{_mm512_scalef_ps(x.raw, n.raw)};
#else
  // Two factors, so that each is a normal float.
  const hn::RebindToSigned<D> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const auto first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(x, first), second);
#endif
}

// Splits x into n ln 2 + r with |r| <= ln(2)/2. |x| must stay below 2^21.
template <class D, class V>
HWY_INLINE V reduce_by_ln2(D d, V x, V& n) {
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.44269504f), magic), magic);
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);
  return hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
}

// e^r - 1 for |r| <= ln(2)/2: r + r^2 q(r), q the minimax polynomial (relative error of e^r 3e-9).
template <class D, class V>
HWY_INLINE V expm1_polynomial(D d, V r) {
  V q = hn::MulAdd(hn::Set(d, 1.3814539e-3f), r, hn::Set(d, 8.3687454e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.1668389e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 1.6666521e-1f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.9999994e-1f));
  return hn::MulAdd(q, hn::Mul(r, r), r);
}

// Clamps to the range outside which the result is constant. NaN may become a number.
template <class D, class V>
HWY_INLINE V clamp(D d, V x, float low, float high) {
  return hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  // Masked scores are -inf, and there are millions of them. Computing with 0 in their place avoids subnormal results,
  // which are slow.
  const auto vanishes = hn::Lt(x, hn::Set(d, -104.0f));
  V n;
  const V r = reduce_by_ln2(d, hn::Min(hn::IfThenZeroElse(vanishes, x), hn::Set(d, 89.0f)), n);
  const V y = scale_by_power(d, hn::Add(expm1_polynomial(d, r), hn::Set(d, 1.0f)), n);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(vanishes, y));
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  V n;
  const V p = expm1_polynomial(d, reduce_by_ln2(d, clamp(d, x, -104.0f, 89.0f), n));
  // 2^n p + (2^n - 1), halved so that 2^n does not overflow before the sum does.
  const V power = scale_by_power(d, half, n);
  const V y = hn::MulAdd(p, power, hn::Sub(power, half));
  const V result = hn::IfThenElse(hn::Eq(n, hn::Zero(d)), p, hn::Add(y, y));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d);
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Exponentiates -|x| only, so that neither branch overflows or cancels.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V magnitude = hn::Abs(x);
  const V e = expm1(d, hn::Mul(two, hn::Min(magnitude, hn::Set(d, 20.0f))));
  const V y = hn::CopySignToAbs(hn::Div(e, hn::Add(e, two)), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Below 1: x times a polynomial in x^2; from there on 1 - exp(-p(|x|)), which is 1 in fp32 from 4 on. Both polynomials
// are minimax with an error of 1.2e-9.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V p = hn::MulAdd(hn::Set(d, 7.889119512530654e-5f), square, hn::Set(d, -8.020841274695366e-4f));
  p = hn::MulAdd(p, square, hn::Set(d, 5.189535338852349e-3f));
  p = hn::MulAdd(p, square, hn::Set(d, -2.6854444591696475e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.1283600176253132e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.76126271359654e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.1283791659137492f));
  const V bounded = hn::Min(magnitude, hn::Set(d, 4.0f));
  V q = hn::MulAdd(hn::Set(d, -1.8557489329333664e-4f), bounded, hn::Set(d, 2.939615736318701e-3f));
  q = hn::MulAdd(q, bounded, hn::Set(d, -2.1805351158156502e-2f));
  q = hn::MulAdd(q, bounded, hn::Set(d, 1.0303743552269494e-1f));
  q = hn::MulAdd(q, bounded, hn::Set(d, 6.382256023645516e-1f));
  q = hn::MulAdd(q, bounded, hn::Set(d, 1.1270400799799252f));
  q = hn::MulAdd(q, bounded, hn::Set(d, 3.5370892817443324e-4f));
  const V large = hn::CopySignToAbs(hn::Sub(one, exp(d, hn::Neg(q))), x);
  const V y = hn::IfThenElse(hn::Lt(magnitude, one), hn::Mul(x, p), large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// The larger value; NaN if either is NaN.
template <class V>
HWY_INLINE V maximum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}

template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
