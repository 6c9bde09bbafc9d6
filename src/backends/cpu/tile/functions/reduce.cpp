// Tile functions for reductions. A sum has several vectors of fp32 partial sums within one tile and adds tiles in
// double, so that its error does not grow with the length of a row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/functions/reduce.cpp"
#include "hwy/foreach_target.h"
//
#include <limits>

#include "backends/cpu/tile/functions/functions.h"
#include "backends/cpu/tile/functions/math-inl.h"
#include "backends/cpu/tile/functions/part-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Sum {
  static HWY_INLINE V start() { return hn::Zero(D()); }
  static HWY_INLINE V combine(V total, V x) { return hn::Add(total, x); }
  static HWY_INLINE double combine(double total, double x) { return total + x; }
  // Several vectors of partial sums; take(k, x) adds x to number k.
  struct Totals {
    V totals[4];
    HWY_INLINE Totals() { totals[0] = totals[1] = totals[2] = totals[3] = start(); }
    HWY_INLINE void take(std::size_t k, V x) { totals[k] = hn::Add(totals[k], x); }
    HWY_INLINE double finish() const {
      const V sum = hn::Add(hn::Add(totals[0], totals[1]), hn::Add(totals[2], totals[3]));
      return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), sum)));
    }
  };
};

struct Max {
  static HWY_INLINE V start() { return hn::Set(D(), -std::numeric_limits<float>::infinity()); }
  static HWY_INLINE V combine(V total, V x) { return maximum(total, x); }
  static HWY_INLINE double combine(double total, double x) { return total > x || total != total ? total : x; }
  // Highway's Max treats NaN differently on each processor, so a mask records NaN.
  struct Totals {
    V totals[4];
    hn::Mask<D> nan;
    HWY_INLINE Totals() : nan(hn::FirstN(D(), 0)) { totals[0] = totals[1] = totals[2] = totals[3] = start(); }
    HWY_INLINE void take(std::size_t k, V x) {
      totals[k] = hn::Max(totals[k], x);
      nan = hn::Or(nan, hn::IsNaN(x));
    }
    HWY_INLINE double finish() const {
      if (!hn::AllFalse(D(), nan)) return std::numeric_limits<double>::quiet_NaN();
      const V largest = hn::Max(hn::Max(totals[0], totals[1]), hn::Max(totals[2], totals[3]));
      return static_cast<double>(hn::GetLane(hn::MaxOfLanes(D(), largest)));
    }
  };
};

template <class Kind>
void reduce(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  const auto* x = static_cast<const float*>(a);
  auto& total = *static_cast<double*>(result);
  const std::size_t n = static_cast<std::size_t>(count);
  if (n == 1) {
    total = Kind::combine(total, static_cast<double>(*x));
    return;
  }
  const std::size_t lanes = hn::Lanes(D());
  typename Kind::Totals totals;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    totals.take(0, hn::LoadU(D(), x + i));
    totals.take(1, hn::LoadU(D(), x + i + lanes));
    totals.take(2, hn::LoadU(D(), x + i + 2 * lanes));
    totals.take(3, hn::LoadU(D(), x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) totals.take(0, hn::LoadU(D(), x + i));
  if (i < n) {
    const auto mask = hn::FirstN(D(), n - i);
    totals.take(1, hn::IfThenElse(mask, Part(n - i).load(x + i), Kind::start()));
  }
  total = Kind::combine(total, totals.finish());
}

template <class Kind>
void accumulate(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* total = static_cast<float*>(result);
  const auto* x = static_cast<const float*>(a);
  const std::size_t n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(Kind::combine(hn::LoadU(D(), total + i), hn::LoadU(D(), x + i)), D(), total + i);
  if (i == n) return;
  const Part part(n - i);
  part.store(Kind::combine(part.load(total + i), part.load(x + i)), total + i);
}

template <class Kind>
void flush(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* total = static_cast<double*>(result);
  // The partial results are the interpreter's own memory, passed as an operand, so they may be written.
  auto* partial = const_cast<float*>(static_cast<const float*>(a));
  const float start = hn::GetLane(Kind::start());
  for (std::int64_t i = 0; i < count; ++i) {
    total[i] = Kind::combine(total[i], static_cast<double>(partial[i]));
    partial[i] = start;
  }
}

template <class Kind>
void combine(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* total = static_cast<double*>(result);
  const auto* x = static_cast<const double*>(a);
  for (std::int64_t i = 0; i < count; ++i) total[i] = Kind::combine(total[i], x[i]);
}

void narrow(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const double*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

Function get_reduce(Op op) { return op == Op::reduce_max ? reduce<Max> : reduce<Sum>; }
Function get_accumulate(Op op) { return op == Op::reduce_max ? accumulate<Max> : accumulate<Sum>; }
Function get_flush(Op op) { return op == Op::reduce_max ? flush<Max> : flush<Sum>; }
Function get_combine(Op op) { return op == Op::reduce_max ? combine<Max> : combine<Sum>; }
Function get_narrow() { return narrow; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::tile {

HWY_EXPORT(get_reduce);
HWY_EXPORT(get_accumulate);
HWY_EXPORT(get_flush);
HWY_EXPORT(get_combine);
HWY_EXPORT(get_narrow);

Function reduce_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_reduce)(op); }
Function accumulate_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_accumulate)(op); }
Function flush_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_flush)(op); }
Function combine_function(Op op) { return HWY_DYNAMIC_DISPATCH(get_combine)(op); }
Function narrow_function() { return HWY_DYNAMIC_DISPATCH(get_narrow)(); }

double identity(Op reduction) { return reduction == Op::reduce_max ? -std::numeric_limits<double>::infinity() : 0.0; }

}  // namespace ridgepoint::tile
#endif
