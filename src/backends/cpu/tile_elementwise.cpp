// Elementwise tile functions: a small loop around one vector formula each.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile_elementwise.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
//
#include "backends/cpu/tile_functions.h"
#include "backends/cpu/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

// An operand: a whole vector of columns at a time, or one value for all of them.
template <bool kScalar>
class Operand {
 public:
  explicit HWY_INLINE Operand(const void* address) : address_(static_cast<const float*>(address)) {}
  HWY_INLINE V load(std::size_t i) const { return hn::LoadU(D(), address_ + i); }
  HWY_INLINE V load(Mask mask, std::size_t i) const { return hn::MaskedLoad(mask, D(), address_ + i); }

 private:
  const float* address_;
};

template <>
class Operand<true> {
 public:
  explicit HWY_INLINE Operand(const void* address) : value_(hn::Set(D(), *static_cast<const float*>(address))) {}
  HWY_INLINE V load(std::size_t) const { return value_; }
  HWY_INLINE V load(Mask, std::size_t) const { return value_; }

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
RIDGEPOINT_BINARY(Add, hn::Add(a, b))
RIDGEPOINT_BINARY(Sub, hn::Sub(a, b))
RIDGEPOINT_BINARY(Mul, hn::Mul(a, b))
RIDGEPOINT_BINARY(Div, hn::Div(a, b))
RIDGEPOINT_BINARY(Maximum, maximum(a, b))
RIDGEPOINT_BINARY(Minimum, minimum(a, b))
RIDGEPOINT_BINARY(Equal, truth(hn::Eq(a, b)))
RIDGEPOINT_BINARY(Less, truth(hn::Lt(a, b)))
RIDGEPOINT_BINARY(LessEqual, truth(hn::Le(a, b)))

#undef RIDGEPOINT_UNARY
#undef RIDGEPOINT_BINARY

// Calls step(i) for whole vectors and step(mask, i) for what is left.
template <class Step>
HWY_INLINE void for_columns(std::int64_t count, const Step& step) {
  const std::size_t n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) step.whole(i);
  if (i < n) step.part(hn::FirstN(D(), n - i), i);
}

template <class Formula, bool... kScalar>
struct ElementwiseStep;

template <class Formula, bool kA>
struct ElementwiseStep<Formula, kA> {
  float* result;
  Operand<kA> a;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(Formula::apply(a.load(i)), D(), result + i); }
  HWY_INLINE void part(Mask mask, std::size_t i) const {
    hn::BlendedStore(Formula::apply(a.load(mask, i)), mask, D(), result + i);
  }
};

template <class Formula, bool kA, bool kB>
struct ElementwiseStep<Formula, kA, kB> {
  float* result;
  Operand<kA> a;
  Operand<kB> b;
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(Formula::apply(a.load(i), b.load(i)), D(), result + i); }
  HWY_INLINE void part(Mask mask, std::size_t i) const {
    hn::BlendedStore(Formula::apply(a.load(mask, i), b.load(mask, i)), mask, D(), result + i);
  }
};

template <bool kA, bool kB, bool kC>
struct WhereStep {
  float* result;
  Operand<kA> a;
  Operand<kB> b;
  Operand<kC> c;
  HWY_INLINE void whole(std::size_t i) const {
    hn::StoreU(hn::IfThenElse(hn::Ne(a.load(i), hn::Zero(D())), b.load(i), c.load(i)), D(), result + i);
  }
  HWY_INLINE void part(Mask mask, std::size_t i) const {
    const Mask chosen = hn::Ne(a.load(mask, i), hn::Zero(D()));
    hn::BlendedStore(hn::IfThenElse(chosen, b.load(mask, i), c.load(mask, i)), mask, D(), result + i);
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

template <bool kA, bool kB, bool kC>
void select(void* result, const void* a, const void* b, const void* c, std::int64_t count, std::int64_t) {
  for_columns(count,
              WhereStep<kA, kB, kC>{static_cast<float*>(result), Operand<kA>(a), Operand<kB>(b), Operand<kC>(c)});
}

struct IotaStep {
  float* result;
  std::int64_t first;
  std::int64_t stride;
  // Exact: the interpreter refuses index ranges past 2^24.
  HWY_INLINE V values(std::size_t i) const {
    const V start = hn::Set(D(), static_cast<float>((first + static_cast<std::int64_t>(i)) * stride));
    return hn::MulAdd(hn::Iota(D(), 0.0f), hn::Set(D(), static_cast<float>(stride)), start);
  }
  HWY_INLINE void whole(std::size_t i) const { hn::StoreU(values(i), D(), result + i); }
  HWY_INLINE void part(Mask mask, std::size_t i) const { hn::BlendedStore(values(i), mask, D(), result + i); }
};

void iota(void* result, const void*, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  for_columns(count, IotaStep{static_cast<float*>(result), *static_cast<const std::int64_t*>(b), stride});
}

Function get_unary(Op op) {
  switch (op) {
    case Op::copy:
      return unary<Copy, false>;
    case Op::neg:
      return unary<Neg, false>;
    case Op::exp:
      return unary<Exp, false>;
    case Op::expm1:
      return unary<Expm1, false>;
    case Op::log:
      return unary<Log, false>;
    case Op::sqrt:
      return unary<Sqrt, false>;
    case Op::rsqrt:
      return unary<Rsqrt, false>;
    case Op::sigmoid:
      return unary<Sigmoid, false>;
    case Op::tanh:
      return unary<Tanh, false>;
    default:
      return nullptr;
  }
}

template <class Formula>
Function choose_binary(bool a_scalar, bool b_scalar) {
  if (a_scalar) return b_scalar ? binary<Formula, true, true> : binary<Formula, true, false>;
  return b_scalar ? binary<Formula, false, true> : binary<Formula, false, false>;
}

Function get_binary(Op op, bool a_scalar, bool b_scalar) {
  switch (op) {
    case Op::add:
      return choose_binary<Add>(a_scalar, b_scalar);
    case Op::sub:
      return choose_binary<Sub>(a_scalar, b_scalar);
    case Op::mul:
      return choose_binary<Mul>(a_scalar, b_scalar);
    case Op::div:
      return choose_binary<Div>(a_scalar, b_scalar);
    case Op::maximum:
      return choose_binary<Maximum>(a_scalar, b_scalar);
    case Op::minimum:
      return choose_binary<Minimum>(a_scalar, b_scalar);
    case Op::equal:
      return choose_binary<Equal>(a_scalar, b_scalar);
    case Op::less:
      return choose_binary<Less>(a_scalar, b_scalar);
    case Op::less_equal:
      return choose_binary<LessEqual>(a_scalar, b_scalar);
    default:
      return nullptr;
  }
}

template <bool kA, bool kB>
Function choose_where(bool c_scalar) {
  return c_scalar ? select<kA, kB, true> : select<kA, kB, false>;
}

Function get_where(bool a_scalar, bool b_scalar, bool c_scalar) {
  if (a_scalar) return b_scalar ? choose_where<true, true>(c_scalar) : choose_where<true, false>(c_scalar);
  return b_scalar ? choose_where<false, true>(c_scalar) : choose_where<false, false>(c_scalar);
}

Function get_fill() { return unary<Copy, true>; }
Function get_iota() { return iota; }

}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::tile {

HWY_EXPORT(get_unary);
HWY_EXPORT(get_binary);
HWY_EXPORT(get_where);
HWY_EXPORT(get_fill);
HWY_EXPORT(get_iota);

Function unary_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_unary)(op); }
Function binary_function(Op op, bool a_scalar, bool b_scalar) {
  return HWY_DYNAMIC_DISPATCH(get_binary)(op, a_scalar, b_scalar);
}
Function where_function(bool a_scalar, bool b_scalar, bool c_scalar) {
  return HWY_DYNAMIC_DISPATCH(get_where)(a_scalar, b_scalar, c_scalar);
}
Function fill_function() { return HWY_DYNAMIC_DISPATCH(get_fill)(); }
Function iota_function() { return HWY_DYNAMIC_DISPATCH(get_iota)(); }

}  // namespace ridgepoint::tile
#endif
