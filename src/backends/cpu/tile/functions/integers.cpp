#include "backends/cpu/tile/functions/functions.h"

#include <algorithm>
#include <type_traits>

#include "core/integers.h"

namespace ridgepoint::tile {
namespace {

template <typename T>
void load(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto* from = static_cast<const T*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

template <typename T>
T low_bits(std::int64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}

template <typename T>
void store(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<T*>(result);
  const auto* from = static_cast<const std::int64_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i * stride] = low_bits<T>(from[i]);
}

struct Equal {
  static bool of(std::int64_t a, std::int64_t b) { return a == b; }
};
struct Less {
  static bool of(std::int64_t a, std::int64_t b) { return a < b; }
};
struct LessEqual {
  static bool of(std::int64_t a, std::int64_t b) { return a <= b; }
};

template <typename Comparison, bool kA, bool kB>
void compare(void* result, const void* a, const void* b, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<float*>(result);
  const auto* x = static_cast<const std::int64_t*>(a);
  const auto* y = static_cast<const std::int64_t*>(b);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Comparison::of(x[kA ? 0 : i], y[kB ? 0 : i]) ? 1.0F : 0.0F;
}

template <bool kA, bool kB, bool kC>
void choose(void* result, const void* a, const void* b, const void* c, std::int64_t count, std::int64_t) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto* condition = static_cast<const float*>(a);
  const auto* x = static_cast<const std::int64_t*>(b);
  const auto* y = static_cast<const std::int64_t*>(c);
  for (std::int64_t i = 0; i < count; ++i) to[i] = condition[kA ? 0 : i] != 0.0F ? x[kB ? 0 : i] : y[kC ? 0 : i];
}

template <bool kA>
void copy(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto* from = static_cast<const std::int64_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[kA ? 0 : i];
}

void iota(void* result, const void*, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto first = reinterpret_cast<std::intptr_t>(b);
  for (std::int64_t i = 0; i < count; ++i) to[i] = first + i * stride;
}

// Clamps a scalar that is not an index to the nearest number that is not an index, which compares alike.
float nearest_to_indices(const void* scalar) {
  return static_cast<float>(
      std::clamp<std::int64_t>(*static_cast<const std::int64_t*>(scalar), -1, kFirstInexactIndex));
}

template <Op kComparison>
void compare_index(void* result, const void* a, const void* b, const void*, std::int64_t count, std::int64_t stride) {
  static const Function compare_with_fp32 = compare_index_function(kComparison);
  const float scalar = nearest_to_indices(a);
  compare_with_fp32(result, &scalar, b, nullptr, count, stride);
}

void pick(void* result, const void* a, const void* b, const void* c, std::int64_t, std::int64_t stride) {
  const std::int64_t column = *static_cast<const std::int64_t*>(b);
  const bool inside = column >= 0 && column < *static_cast<const std::int64_t*>(c);
  *static_cast<float*>(result) = inside ? static_cast<const float*>(a)[column * stride] : 0.0F;
}

template <typename T>
void from_float(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto* from = static_cast<const float*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_integer<T>(static_cast<double>(from[i]));
}

template <typename T>
void narrow_integer(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<std::int64_t*>(result);
  const auto* from = static_cast<const std::int64_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = low_bits<T>(from[i]);
}

struct ToFp32 {
  static float of(std::int64_t value) { return static_cast<float>(value); }
};
struct ToBool {
  static float of(std::int64_t value) { return value != 0 ? 1.0F : 0.0F; }
};

template <typename Conversion>
void to_float(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const std::int64_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Conversion::of(from[i]);
}

// Rounding to odd in fp32 first makes the second rounding, to 16 bits, correct.
template <DType kTo>
void to_16_bits(void* result, const void* a, const void*, const void*, std::int64_t count, std::int64_t) {
  static const Function round = round_function(kTo);
  auto* to = static_cast<float*>(result);
  const auto* from = static_cast<const std::int64_t*>(a);
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_odd_float(from[i]);
  round(result, result, nullptr, nullptr, count, 1);
}

template <typename Comparison>
Function choose_comparison(bool a_scalar, bool b_scalar) {
  if (a_scalar) return b_scalar ? compare<Comparison, true, true> : compare<Comparison, true, false>;
  return b_scalar ? compare<Comparison, false, true> : compare<Comparison, false, false>;
}

template <bool kA, bool kB>
Function choose_choice(bool c_scalar) {
  return c_scalar ? choose<kA, kB, true> : choose<kA, kB, false>;
}

Function cast_from_integer(DType to) {
  switch (to) {
    case DType::fp64: return nullptr;
    case DType::fp32: return to_float<ToFp32>;
    case DType::bf16: return to_16_bits<DType::bf16>;
    case DType::fp16: return to_16_bits<DType::fp16>;
    case DType::int64: return copy<false>;
    case DType::int32: return narrow_integer<std::int32_t>;
    case DType::boolean: return to_float<ToBool>;
    case DType::dynamic8:
    case DType::udynamic8:
    case DType::e4m3:
    case DType::e5m2:
    case DType::low_half:
    case DType::packed: return nullptr;
  }
  return nullptr;
}

}  // namespace

Function integer_load_function(DType dtype) { return dtype == DType::int64 ? load<std::int64_t> : load<std::int32_t>; }

Function integer_store_function(DType dtype) {
  return dtype == DType::int64 ? store<std::int64_t> : store<std::int32_t>;
}

Function integer_compare_function(Op comparison, bool a_scalar, bool b_scalar) {
  if (comparison == Op::equal) return choose_comparison<Equal>(a_scalar, b_scalar);
  if (comparison == Op::less) return choose_comparison<Less>(a_scalar, b_scalar);
  return comparison == Op::less_equal ? choose_comparison<LessEqual>(a_scalar, b_scalar) : nullptr;
}

Function integer_where_function(bool a_scalar, bool b_scalar, bool c_scalar) {
  if (a_scalar) return b_scalar ? choose_choice<true, true>(c_scalar) : choose_choice<true, false>(c_scalar);
  return b_scalar ? choose_choice<false, true>(c_scalar) : choose_choice<false, false>(c_scalar);
}

Function integer_copy_function(bool a_scalar) { return a_scalar ? copy<true> : copy<false>; }
Function integer_iota_function() { return iota; }

Function integer_compare_index_function(Op comparison) {
  if (comparison == Op::equal) return compare_index<Op::equal>;
  return comparison == Op::less ? compare_index<Op::less> : compare_index<Op::less_equal>;
}

Function integer_pick_function() { return pick; }

Function integer_cast_function(DType from, DType to) {
  if (is_integer(from)) return cast_from_integer(to);
  if (from == DType::fp64) return nullptr;
  return to == DType::int64 ? from_float<std::int64_t> : from_float<std::int32_t>;
}

}  // namespace ridgepoint::tile
