// The last, incomplete vector of a tile. Memory beyond the tile is neither read nor written, at any alignment; Highway
// guarantees this only for processors with masked instructions. Included once for each vector width.

#if defined(RIDGEPOINT_TILE_PART_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGEPOINT_TILE_PART_INL_H_
#undef RIDGEPOINT_TILE_PART_INL_H_
#else
#define RIDGEPOINT_TILE_PART_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes of a vector; the others load as 0.
#if HWY_TARGET <= HWY_AVX2
class Part {
 public:
  explicit HWY_INLINE Part(std::size_t count) : mask_(hn::FirstN(D(), count)) {}
  HWY_INLINE hn::Vec<hn::ScalableTag<float>> load(const float* from) const { return hn::MaskedLoad(mask_, D(), from); }
  HWY_INLINE void store(hn::Vec<hn::ScalableTag<float>> x, float* to) const { hn::BlendedStore(x, mask_, D(), to); }

 private:
  using D = hn::ScalableTag<float>;
  hn::Mask<D> mask_;
};
#else
class Part {
 public:
  explicit HWY_INLINE Part(std::size_t count) : count_(count) {}
  HWY_INLINE hn::Vec<hn::ScalableTag<float>> load(const float* from) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
    for (std::size_t i = 0; i < count_; ++i) lanes[i] = from[i];
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void store(hn::Vec<hn::ScalableTag<float>> x, float* to) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(x, D(), lanes);
    for (std::size_t i = 0; i < count_; ++i) to[i] = lanes[i];
  }

 private:
  using D = hn::ScalableTag<float>;
  std::size_t count_;
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
