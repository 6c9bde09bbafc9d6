// Elementwise tile functions: each is a loop around one vector formula.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/functions/elementwise.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
//
#include "backends/cpu/tile/functions/functions.h"
#include "backends/cpu/tile/functions/math-inl.h"
#include "backends/cpu/tile/functions/part-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

// An operand with one value for each column, or one value for all columns.
template <bool kScalar>
class Operand {
 public:
  explicit HWY_INLINE Operand(const void* address) : address_(static_cast<const float*>(address)) {}
  HWY_INLINE V load(std::size_t i) const { return hn::LoadU(D(), address_ + i); }
  HWY_INLINE V load(const Part& part, std::size_t i) const { return part.load(address_ + i); }

 private:
  const float* address_;
};

template <>
class Operand<true> {
 public:
  explicit HWY_INLINE Operand(const void* address) : value_(hn::Set(D(), *static_cast<const float*>(address))) {}
  HWY_INLINE V load(std::size_t) const { return value_; }
  HWY_INLINE V load(const Part&, std::size_t) const { return value_; }

 private:
  V value_;
};

#define RIDGEPOINT_UNARY(name, formula)                \
  struct name {                                        \
    static HWY_INLINE V apply(V a) { return formula; } \
  };
#define RIDGEPOINT_BINARY(name, formula)                    \
  struct name {                                             \
    static HWY_INLINE V apply(V a, V b) { return formula; } \
  };

// core/types/halves.h
HWY_INLINE V round_away(V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto rounded = hn::Add(bits, hn::Set(du, 0x8000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::BitCast(D(), hn::And(chosen, hn::Set(du, 0xFFFF0000)));
}
HWY_INLINE V join_halves(V rounded, V low) {
  const hn::RebindToUnsigned<D> du;
  const auto high = hn::BitCast(du, rounded);
  const auto bits = hn::BitCast(du, low);
  const auto carry = hn::ShiftLeft<1>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto carried = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(rounded)), high, hn::Sub(high, carry));
  return hn::BitCast(D(), hn::Or(carried, bits));
}

HWY_INLINE V truth(Mask mask) { return hn::IfThenElseZero(mask, hn::Set(D(), 1.0f)); }

RIDGEPOINT_UNARY(Copy, a)
RIDGEPOINT_UNARY(Neg, hn::Neg(a))
RIDGEPOINT_UNARY(Exp, exp(D(), a))
RIDGEPOINT_UNARY(Expm1, expm1(D(), a))
RIDGEPOINT_UNARY(Log, log(D(), a))
RIDGEPOINT_UNARY(Sqrt, hn::Sqrt(a))
RIDGEPOINT_UNARY(Rsqrt, hn::Div(hn::Set(D(), 1.0f), hn::Sqrt(a)))
RIDGEPOINT_UNARY(Sigmoid, sigmoid(D(), a))
RIDGEPOINT_UNARY(Tanh, tanh(D(), a))
RIDGEPOINT_UNARY(Erf, erf(D(), a))
RIDGEPOINT_UNARY(RoundAway, round_away(a))
RIDGEPOINT_BINARY(JoinHalves, join_halves(a, b))
RIDGEPOINT_BINARY(Add, hn::Add(a, b))
RIDGEPOINT_BINARY(Sub, hn::Sub(a, b))
RIDGEPOINT_BINARY(Mul, hn::Mul(a, b))
RIDGEPOINT_BINARY(Div, hn::Div(a, b))
RIDGEPOINT_BINARY(Maximum, maximum(a, b))
RIDGEPOINT_BINARY(Minimum, minimum(a, b))
RIDGEPOINT_BINARY(Equal, truth(hn::Eq(a, b)))
RIDGEPOINT_BINARY(Less, truth(hn::Lt(a, b)))
RIDGEPOINT_BINARY(LessEqual, truth(hn::Le(a, b)))

struct MulAdd {
  static HWY_INLINE V apply(V a, V b, V c) { return hn::MulAdd(a, b, c); }
};
struct MulSub {
  static HWY_INLINE V apply(V a, V b, V c) { return hn::MulSub(a, b, c); }
};
struct SubMul {
  static HWY_INLINE V apply(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
};
struct MulMul {
  static HWY_INLINE V apply(V a, V b, V c) { return hn::Mul(hn::Mul(a, b), c); }
};
struct Where {
  static HWY_INLINE V apply(V a, V b, V c) { return hn::IfThenElse(hn::Ne(a, hn::Zero(D())), b, c); }
};
RIDGEPOINT_BINARY(ExpSub, exp(D(), hn::Sub(a, b)))

#undef RIDGEPOINT_UNARY
#undef RIDGEPOINT_BINARY

// Calls step.whole(i) for whole vectors and step.part(part, i) for the incomplete last one.
template <class Step>
HWY_INLINE void for_columns(std::int64_t count, const Step& step) {
  const std::size_t n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) step.whole(i);
  if (i < n) step.part(Part(n - i), i);
}

template <class Formula, bool... kScalar>
struct ElementwiseStep;

template <class Formula, bool kA>
struct ElementwiseStep<Formula, kA> {
  float* result;
  Operand<kA> a;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(Formula::apply(a.load(i)), D(), result + i); }
  HWY_INLINE void part(const Part& part, std::size_t i) const {
    part.store(Formula::apply(a.load(part, i)), result + i);
  }
};

template <class Formula, bool kA, bool kB>
struct ElementwiseStep<Formula, kA, kB> {
  float* result;
  Operand<kA> a;
  Operand<kB> b;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(Formula::apply(a.load(i), b.load(i)), D(), result + i); }
  HWY_INLINE void part(const Part& part, std::size_t i) const {
    part.store(Formula::apply(a.load(part, i), b.load(part, i)), result + i);
  }
};

template <class Formula, bool kA, bool kB, bool kC>
struct ElementwiseStep<Formula, kA, kB, kC> {
  float* result;
  Operand<kA> a;
  Operand<kB> b;
  Operand<kC> c;
  HWY_INLINE void whole(std::size_t i) const {
    hn::StoreU(Formula::apply(a.load(i), b.load(i), c.load(i)), D(), result + i);
  }
  HWY_INLINE void part(const Part& part, std::size_t i) const {
    part.store(Formula::apply(a.load(part, i), b.load(part, i), c.load(part, i)), result + i);
  }
};

template <class Formula, bool kScalar>
void unary(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  for_columns(count, ElementwiseStep<Formula, kScalar>{static_cast<float*>(result), Operand<kScalar>(a)});
}

template <class Formula, bool kA, bool kB>
void binary(void* result, const void* a, const void* b, const void*, std::int64_t count, std::int64_t) {
  for_columns(count, ElementwiseStep<Formula, kA, kB>{static_cast<float*>(result), Operand<kA>(a), Operand<kB>(b)});
}

template <class Formula, bool kA, bool kB, bool kC>
void ternary(void* result, const void* a, const void* b, const void* c, std::int64_t count, std::int64_t) {
  for_columns(count, ElementwiseStep<Formula, kA, kB, kC>{static_cast<float*>(result), Operand<kA>(a), Operand<kB>(b),
                                                          Operand<kC>(c)});
}

// Every stride-th index. They are exact, because the compiler refuses indices beyond 2^24.
struct Indices {
  std::int64_t first;
  std::int64_t stride;
  HWY_INLINE V at(std::size_t i) const {
    const V start = hn::Set(D(), static_cast<float>(first + static_cast<std::int64_t>(i) * stride));
    return hn::MulAdd(hn::Iota(D(), 0.0f), hn::Set(D(), static_cast<float>(stride)), start);
  }
};

struct IotaStep {
  float* result;
  Indices indices;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(indices.at(i), D(), result + i); }
  HWY_INLINE void part(const Part& part, std::size_t i) const { part.store(indices.at(i), result + i); }
};

template <class Comparison>
struct CompareIndexStep {
  float* result;
  Indices indices;
  V scalar;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(Comparison::apply(indices.at(i), scalar), D(), result + i); }
  HWY_INLINE void part(const Part& part, std::size_t i) const {
    part.store(Comparison::apply(indices.at(i), scalar), result + i);
  }
};

void iota(void* result, const void*, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  for_columns(count, IotaStep{static_cast<float*>(result), {reinterpret_cast<std::intptr_t>(b), stride}});
}

template <class Comparison>
void compare_index(void* result, const void* a, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  for_columns(count, CompareIndexStep<Comparison>{static_cast<float*>(result),
                                                  {reinterpret_cast<std::intptr_t>(b), stride},
                                                  hn::Set(D(), *static_cast<const float*>(a))});
}

Function get_unary(Op op) {
  switch (op) {
    case Op::copy: return unary<Copy, false>;
    case Op::neg: return unary<Neg, false>;
    case Op::exp: return unary<Exp, false>;
    case Op::expm1: return unary<Expm1, false>;
    case Op::log: return unary<Log, false>;
    case Op::sqrt: return unary<Sqrt, false>;
    case Op::rsqrt: return unary<Rsqrt, false>;
    case Op::sigmoid: return unary<Sigmoid, false>;
    case Op::tanh: return unary<Tanh, false>;
    case Op::erf: return unary<Erf, false>;
    case Op::round_away: return unary<RoundAway, false>;
    default: return nullptr;
  }
}

template <class Formula>
Function choose_binary(bool a_scalar, bool b_scalar) {
  if (a_scalar) return b_scalar ? binary<Formula, true, true> : binary<Formula, true, false>;
  return b_scalar ? binary<Formula, false, true> : binary<Formula, false, false>;
}

Function get_binary(Op op, bool a_scalar, bool b_scalar) {
  switch (op) {
    case Op::join_halves: return choose_binary<JoinHalves>(a_scalar, b_scalar);
    case Op::add: return choose_binary<Add>(a_scalar, b_scalar);
    case Op::sub: return choose_binary<Sub>(a_scalar, b_scalar);
    case Op::mul: return choose_binary<Mul>(a_scalar, b_scalar);
    case Op::div: return choose_binary<Div>(a_scalar, b_scalar);
    case Op::maximum: return choose_binary<Maximum>(a_scalar, b_scalar);
    case Op::minimum: return choose_binary<Minimum>(a_scalar, b_scalar);
    case Op::equal: return choose_binary<Equal>(a_scalar, b_scalar);
    case Op::less: return choose_binary<Less>(a_scalar, b_scalar);
    case Op::less_equal: return choose_binary<LessEqual>(a_scalar, b_scalar);
    default: return nullptr;
  }
}

template <class Formula, bool kA, bool kB>
Function choose_ternary(bool c_scalar) {
  return c_scalar ? ternary<Formula, kA, kB, true> : ternary<Formula, kA, kB, false>;
}

template <class Formula>
Function choose_ternary(bool a_scalar, bool b_scalar, bool c_scalar) {
  if (a_scalar)
    return b_scalar ? choose_ternary<Formula, true, true>(c_scalar) : choose_ternary<Formula, true, false>(c_scalar);
  return b_scalar ? choose_ternary<Formula, false, true>(c_scalar) : choose_ternary<Formula, false, false>(c_scalar);
}

Function get_where(bool a_scalar, bool b_scalar, bool c_scalar) {
  return choose_ternary<Where>(a_scalar, b_scalar, c_scalar);
}

Function get_pair(Pair pair, bool a_scalar, bool b_scalar, bool c_scalar) {
  switch (pair) {
    case Pair::mul_add: return choose_ternary<MulAdd>(a_scalar, b_scalar, c_scalar);
    case Pair::mul_sub: return choose_ternary<MulSub>(a_scalar, b_scalar, c_scalar);
    case Pair::sub_mul: return choose_ternary<SubMul>(a_scalar, b_scalar, c_scalar);
    case Pair::mul_mul: return choose_ternary<MulMul>(a_scalar, b_scalar, c_scalar);
    case Pair::exp_sub: return choose_binary<ExpSub>(a_scalar, b_scalar);
  }
  return nullptr;
}

Function get_compare_index(Op comparison) {
  if (comparison == Op::equal) return compare_index<Equal>;
  return comparison == Op::less ? compare_index<Less> : compare_index<LessEqual>;
}

Function get_fill() { return unary<Copy, true>; }
Function get_iota() { return iota; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::tile {

namespace {

void pick(void* result, const void* a, const void* b, const void* c, std::int64_t, std::int64_t stride) {
  const float index = *static_cast<const float*>(b);
  const bool inside = index >= 0.0f && index < static_cast<float>(*static_cast<const std::int64_t*>(c));
  const std::int64_t column = inside ? static_cast<std::int64_t>(index) : 0;
  const bool found = inside && static_cast<float>(column) == index;
  *static_cast<float*>(result) = found ? static_cast<const float*>(a)[column * stride] : 0.0f;
}

}  // namespace

Function pick_function() { return pick; }

HWY_EXPORT(get_unary);
HWY_EXPORT(get_binary);
HWY_EXPORT(get_where);
HWY_EXPORT(get_pair);
HWY_EXPORT(get_compare_index);
HWY_EXPORT(get_fill);
HWY_EXPORT(get_iota);

Function unary_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_unary)(op); }
Function binary_function(Op op, bool a_scalar, bool b_scalar) {
  return HWY_DYNAMIC_DISPATCH(get_binary)(op, a_scalar, b_scalar);
}
Function where_function(bool a_scalar, bool b_scalar, bool c_scalar) {
  return HWY_DYNAMIC_DISPATCH(get_where)(a_scalar, b_scalar, c_scalar);
}
Function pair_function(Pair pair, bool a_scalar, bool b_scalar, bool c_scalar) {
  return HWY_DYNAMIC_DISPATCH(get_pair)(pair, a_scalar, b_scalar, c_scalar);
}
Function compare_index_function(Op comparison) { return HWY_DYNAMIC_DISPATCH(get_compare_index)(comparison); }
Function fill_function() { return HWY_DYNAMIC_DISPATCH(get_fill)(); }
Function iota_function() { return HWY_DYNAMIC_DISPATCH(get_iota)(); }

}  // namespace ridgepoint::tile
#endif
