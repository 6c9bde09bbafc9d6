// Loads and stores of bf16 as vectors of floats. Included once for each vector width.

#if defined(RIDGEPOINT_TILE_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGEPOINT_TILE_BF16_INL_H_
#undef RIDGEPOINT_TILE_BF16_INL_H_
#else
#define RIDGEPOINT_TILE_BF16_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const std::uint16_t* address) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> halves;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(halves, address))));
}

// Rounds to nearest even by adding half a unit of the last mantissa bit, or slightly less if that is even. Keeps NaN.
template <class D, class V>
HWY_INLINE void store_bf16(D d, V x, std::uint16_t* address) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto bits = hn::BitCast(du, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
  const auto quiet = hn::Or(high, hn::Set(du, 0x40));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(di, chosen)), halves, address);
  (void)d;
}

}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
