// Tile functions that convert between memory of any non-integer dtype and fp32 tiles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/tile/functions/convert.cpp"
#include "hwy/foreach_target.h"
//
#include <cstring>

#include "backends/cpu/tile/functions/bf16-inl.h"
#include "backends/cpu/tile/functions/functions.h"
#include "core/dynamic_code.h"
#include "core/types/float8.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ridgepoint::tile {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Halves = hn::Rebind<std::uint16_t, D>;

// Conversion of an element type to a vector of floats and back, in contiguous memory.
struct Bf16 {
  using Element = std::uint16_t;
  static HWY_INLINE V widen(const Element* address) { return load_bf16(D(), address); }
  static HWY_INLINE void narrow(V x, Element* address) { store_bf16(D(), x, address); }
};

#if HWY_TARGET <= HWY_AVX2
struct Fp16 {  // the processor converts, rounding to nearest even
  using Element = std::uint16_t;
  using Narrow = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE V widen(const Element* address) {
    return hn::PromoteTo(D(), hn::BitCast(Narrow(), hn::LoadU(Halves(), address)));
  }
  static HWY_INLINE void narrow(V x, Element* address) {
    hn::StoreU(hn::BitCast(Halves(), hn::DemoteTo(Narrow(), x)), Halves(), address);
  }
};
#else
struct Fp16 {  // Highway's own conversion reads infinity as 65536, and truncates
  using Element = std::uint16_t;
  static HWY_INLINE V widen(const Element* address) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(Halves(), address));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFF));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    // The product changes the exponent's bias and normalises subnormals.
    const V scaled = hn::Mul(hn::BitCast(D(), hn::ShiftLeft<13>(magnitude)), hn::Set(D(), 0x1p112f));
    const auto special = hn::VecFromMask(du, hn::Gt(magnitude, hn::Set(du, 0x7BFF)));
    const auto exponent = hn::And(special, hn::Set(du, 0x7F800000));
    return hn::BitCast(D(), hn::Or(hn::Or(sign, exponent), hn::BitCast(du, scaled)));
  }
  static HWY_INLINE void narrow(V x, Element* address) {
    HWY_ALIGN float values[hn::MaxLanes(D())];
    hn::Store(x, D(), values);
    for (std::size_t i = 0; i < hn::Lanes(D()); ++i) address[i] = round(values[i]);
  }
  static std::uint16_t round(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
    if (bits >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);
    if (bits < 0x38800000) {  // subnormal: adding 0.5 rounds to multiples of 2^-24, the last mantissa bit of 0.5
      float magnitude;
      std::memcpy(&magnitude, &bits, sizeof magnitude);
      magnitude += 0.5f;
      std::memcpy(&bits, &magnitude, sizeof bits);
      return static_cast<std::uint16_t>(sign | (bits - 0x3F000000));
    }
    const std::uint32_t odd = (bits >> 13) & 1;
    return static_cast<std::uint16_t>(sign | ((bits + 0xFFF + odd - 0x38000000) >> 13));
  }
};
#endif

// e4m3 and e5m2 (core/types/float8.h).
template <int kMantissa, int kBias, int kLargestCode>
struct Float8 {
  using Element = std::uint8_t;
  using Bytes = hn::Rebind<std::uint8_t, D>;
  using Words = hn::RebindToUnsigned<D>;
  static constexpr int kShift = 23 - kMantissa;  // of the bits of a code in those of an fp32 number
  static HWY_INLINE V widen(const Element* address) {
    const Words du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(Bytes(), address));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7F));
    const auto sign = hn::ShiftLeft<24>(hn::Xor(bits, magnitude));
    // The product changes the exponent's bias and normalises subnormals.
    const V power = hn::BitCast(D(), hn::Set(du, static_cast<std::uint32_t>(254 - kBias) << 23));
    const V scaled = hn::Mul(hn::BitCast(D(), hn::ShiftLeft<kShift>(magnitude)), power);
    // Beyond the largest number there are NaN and, in e5m2, infinity: these keep only the bits that fp32 gives them.
    const auto is_special = hn::Gt(magnitude, hn::Set(du, kLargestCode));
    const auto special = hn::Or(hn::ShiftLeft<kShift>(magnitude), hn::Set(du, 0x7F800000));
    return hn::BitCast(D(), hn::Or(sign, hn::IfThenElse(is_special, special, hn::BitCast(du, scaled))));
  }
  static HWY_INLINE void narrow(V x, Element* address) {
    const Words du;
    const auto bits = hn::BitCast(du, x);
    const auto sign = hn::ShiftRight<24>(hn::AndNot(hn::Set(du, 0x7FFFFFFF), bits));
    const auto largest = hn::BitCast(du, hn::Set(D(), kLargest));
    const auto absolute = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
    const auto magnitude = hn::Min(absolute, largest);
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, 1));
    const auto half = hn::Set(du, (1U << (kShift - 1)) - 1);
    const auto rebias = hn::Set(du, static_cast<std::uint32_t>(127 - kBias) << kMantissa);
    const auto normal = hn::Sub(hn::ShiftRight<kShift>(hn::Add(magnitude, hn::Add(half, odd))), rebias);
    // Adding 2^23 steps of the subnormal numbers rounds to such steps; the sum counts them in its mantissa.
    const auto steps = hn::Set(du, static_cast<std::uint32_t>(127 + 24 - kBias - kMantissa) << 23);
    const V sum = hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), steps));
    const auto subnormal = hn::Sub(hn::BitCast(du, sum), steps);
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(du, static_cast<std::uint32_t>(128 - kBias) << 23));
    const auto rounded = hn::Or(sign, hn::IfThenElse(is_subnormal, subnormal, normal));
    const auto is_nan = hn::Gt(absolute, hn::Set(du, 0x7F800000));
    const auto code = hn::IfThenElse(is_nan, hn::Set(du, kFloat8NaN), rounded);
    hn::StoreU(hn::DemoteTo(Bytes(), hn::BitCast(hn::RebindToSigned<D>(), code)), Bytes(), address);
  }

 private:
  static constexpr float kLargest = kMantissa == 3 ? 448.0f : 57344.0f;
};
using E4m3 = Float8<3, 7, 0x7E>;
using E5m2 = Float8<2, 15, 0x7B>;

// As an fp32 number that has no other bits.
struct LowHalf {
  using Element = std::uint16_t;
  static HWY_INLINE V widen(const Element* address) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(D(), hn::PromoteTo(du, hn::LoadU(Halves(), address)));
  }
  static HWY_INLINE void narrow(V x, Element* address) {
    const hn::RebindToSigned<D> di;
    hn::StoreU(hn::DemoteTo(Halves(), hn::And(hn::BitCast(di, x), hn::Set(di, 0xFFFF))), Halves(), address);
  }
};

template <class Type>
void load_simd(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const typename Type::Element*>(a);
  const std::size_t n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(Type::widen(from + i), D(), to + i);
  if (i == n) return;
  typename Type::Element rest[hn::MaxLanes(D())] = {};
  HWY_ALIGN float widened[hn::MaxLanes(D())];
  std::memcpy(rest, from + i, (n - i) * sizeof rest[0]);
  hn::StoreU(Type::widen(rest), D(), widened);
  std::memcpy(to + i, widened, (n - i) * sizeof(float));
}

template <class Type>
void store_simd(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<typename Type::Element*>(result);
  const auto* from = static_cast<const float*>(a);
  const std::size_t n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) Type::narrow(hn::LoadU(D(), from + i), to + i);
  if (i == n) return;
  typename Type::Element narrowed[hn::MaxLanes(D())];
  HWY_ALIGN float rest[hn::MaxLanes(D())] = {};
  std::memcpy(rest, from + i, (n - i) * sizeof(float));
  Type::narrow(hn::LoadU(D(), rest), narrowed);
  std::memcpy(to + i, narrowed, (n - i) * sizeof narrowed[0]);
}

// One low element at a time, for strides other than 1.
template <class Type>
void load_strided(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const typename Type::Element*>(a);
  HWY_ALIGN float widened[hn::MaxLanes(D())];
  typename Type::Element element[hn::MaxLanes(D())] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    element[0] = from[i * stride];
    hn::StoreU(Type::widen(element), D(), widened);
    to[i] = widened[0];
  }
}

template <class Type>
void store_strided(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<typename Type::Element*>(result);
  const auto* from = static_cast<const float*>(a);
  typename Type::Element narrowed[hn::MaxLanes(D())];
  for (std::int64_t i = 0; i < count; ++i) {
    Type::narrow(hn::Set(D(), from[i]), narrowed);
    to[i * stride] = narrowed[0];
  }
}

template <class Type>
void round_simd(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  constexpr std::int64_t kChunk = 256;
  typename Type::Element narrowed[kChunk];
  for (std::int64_t i = 0; i < count; i += kChunk) {
    const std::int64_t n = count - i < kChunk ? count - i : kChunk;
    store_simd<Type>(narrowed, static_cast<const float*>(a) + i, nullptr, nullptr, n, 1);
    load_simd<Type>(static_cast<float*>(result) + i, narrowed, nullptr, nullptr, n, 1);
  }
}

template <class T>
HWY_INLINE float widen(T element) {
  return static_cast<float>(element);
}

template <class T>
HWY_INLINE T narrow(float value) {
  return static_cast<T>(value);
}

struct Boolean {
  std::uint8_t byte;
};
template <>
HWY_INLINE float widen<Boolean>(Boolean element) {
  return element.byte != 0 ? 1.0f : 0.0f;
}
template <>
HWY_INLINE Boolean narrow<Boolean>(float value) {
  return {static_cast<std::uint8_t>(value != 0.0f)};
}

template <DType kDType>
struct Code {
  std::uint8_t byte;
};
template <>
HWY_INLINE float widen<Code<DType::dynamic8>>(Code<DType::dynamic8> element) {
  return dynamic_levels(DType::dynamic8)[element.byte];
}
template <>
HWY_INLINE float widen<Code<DType::udynamic8>>(Code<DType::udynamic8> element) {
  return dynamic_levels(DType::udynamic8)[element.byte];
}
template <>
HWY_INLINE Code<DType::dynamic8> narrow<Code<DType::dynamic8>>(float value) {
  return {dynamic_code(DType::dynamic8, value)};
}
template <>
HWY_INLINE Code<DType::udynamic8> narrow<Code<DType::udynamic8>>(float value) {
  return {dynamic_code(DType::udynamic8, value)};
}

template <class T, bool kUnit>
void load_plain(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const T*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = widen<T>(from[kUnit ? i : i * stride]);
}

template <class T, bool kUnit>
void store_plain(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<T*>(result);
  const auto* from = static_cast<const float*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[kUnit ? i : i * stride] = narrow<T>(from[i]);
}

template <class T>
void round_plain(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const float*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = widen<T>(narrow<T>(from[i]));
}

template <class T>
void move(void* result, const void* a, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<T*>(result);
  const auto* from = static_cast<const T*>(a);
  const std::int64_t to_stride = *static_cast<const std::int64_t*>(b);
  if (stride == 1 && to_stride == 1) {
    std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * stride];
  }
}

// The functions of a dtype; null for fp64 and integers.
struct Conversions {
  Function load = nullptr, load_strided = nullptr, store = nullptr, store_strided = nullptr, round = nullptr;
};
template <class T>
constexpr Conversions kPlain = {load_plain<T, true>, load_plain<T, false>, store_plain<T, true>, store_plain<T, false>,
                                round_plain<T>};
template <class Format>
constexpr Conversions kSimd = {load_simd<Format>, load_strided<Format>, store_simd<Format>, store_strided<Format>,
                               round_simd<Format>};

Conversions conversions(DType dtype) {
  switch (dtype) {
    case DType::fp32: return kPlain<float>;
    case DType::bf16: return kSimd<Bf16>;
    case DType::fp16: return kSimd<Fp16>;
    case DType::boolean: return kPlain<Boolean>;
    case DType::dynamic8: return kPlain<Code<DType::dynamic8>>;
    case DType::udynamic8: return kPlain<Code<DType::udynamic8>>;
    case DType::e4m3: return kSimd<E4m3>;
    case DType::e5m2: return kSimd<E5m2>;
    case DType::low_half: return kSimd<LowHalf>;
    default: return {};
  }
}

Function get_load(DType dtype, std::int64_t stride) {
  return stride == 1 ? conversions(dtype).load : conversions(dtype).load_strided;
}
Function get_store(DType dtype, std::int64_t stride) {
  return stride == 1 ? conversions(dtype).store : conversions(dtype).store_strided;
}
Function get_round(DType dtype) { return conversions(dtype).round; }

Function get_move(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return move<std::uint8_t>;
    case 2: return move<std::uint16_t>;
    case 4: return move<std::uint32_t>;
    default: return move<std::uint64_t>;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ridgepoint::tile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridgepoint::tile {

HWY_EXPORT(get_load);
HWY_EXPORT(get_store);
HWY_EXPORT(get_round);
HWY_EXPORT(get_move);

Function load_function(DType dtype, std::int64_t stride) { return HWY_DYNAMIC_DISPATCH(get_load)(dtype, stride); }
Function store_function(DType dtype, std::int64_t stride) { return HWY_DYNAMIC_DISPATCH(get_store)(dtype, stride); }
Function round_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(get_round)(dtype); }
Function move_function(std::size_t element_bytes) { return HWY_DYNAMIC_DISPATCH(get_move)(element_bytes); }

}  // namespace ridgepoint::tile
#endif
