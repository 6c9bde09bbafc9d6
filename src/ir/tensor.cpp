#include "ridgepoint/ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dynamic_code.h"
#include "core/integers.h"
#include "core/threads/parallel.h"
#include "core/types/float8.h"
#include "core/types/halves.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

template <typename T>
bool stores(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return dtype == DType::fp64;
  if constexpr (std::is_same_v<T, float>) return dtype == DType::fp32;
  if constexpr (std::is_same_v<T, std::int64_t>) return dtype == DType::int64;
  if constexpr (std::is_same_v<T, std::int32_t>) return dtype == DType::int32;
  return size_bytes(dtype) == sizeof(T);  // bits
}

template <typename T>
T read(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <typename T>
void write(void* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

// The format of bf16 or fp16.
struct LowFormat {
  explicit LowFormat(DType dtype) : mantissa(traits(dtype).digits - 1), exponent_bits(traits(dtype).exponent_bits) {}
  int mantissa;  // bits, without the implicit one
  int exponent_bits;
  int bias = (1 << (exponent_bits - 1)) - 1;
};

constexpr int kDoubleMantissa = 52, kDoubleBias = 1023;
constexpr std::uint64_t kDoubleSign = std::uint64_t{1} << 63;

// round_to_16() of a value whose result, before rounding, is a normal number: rounding in the bits of the double is
// many times as fast, and nearly all parameters of a model are of this kind.
std::uint16_t round_normal_to_16(std::uint64_t bits, int mantissa, int bias) {
  const int shift = kDoubleMantissa - mantissa;
  const std::uint64_t magnitude =
      (bits & ~kDoubleSign) - (static_cast<std::uint64_t>(kDoubleBias - bias) << kDoubleMantissa);
  const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  return static_cast<std::uint16_t>(((bits & kDoubleSign) >> 48) | ((magnitude + below_half) >> shift));
}

// Rounds a double to bf16 or fp16, to nearest even, without an intermediate fp32.
std::uint16_t round_to_16(double value, const LowFormat& format) {
  const auto [mantissa, exponent_bits, bias] = format;
  const auto bits_of_value = std::bit_cast<std::uint64_t>(value);
  const int power = static_cast<int>((bits_of_value & ~kDoubleSign) >> kDoubleMantissa) - kDoubleBias;
  if (power >= 1 - bias && power <= bias) [[likely]]
    return round_normal_to_16(bits_of_value, mantissa, bias);
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto exponent_mask = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | exponent_mask | (1 << (mantissa - 1)));
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | exponent_mask);
  if (magnitude == 0.0) return sign;
  int exponent = std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - bias);  // subnormals share the smallest normal exponent
  // nearbyint rounds to nearest even in the default mode.
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  // A carry out of the mantissa moves into the exponent field by plain addition.
  const std::uint32_t bits = (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa) + steps;
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, exponent_mask));
}

double widen_16(std::uint16_t bits, const LowFormat& format) {
  const auto [mantissa, exponent_bits, bias] = format;
  const int field = (bits >> mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (field == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (field == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  const auto magnitude = static_cast<std::uint64_t>(bits & 0x7fff) << (kDoubleMantissa - mantissa);
  return sign * std::bit_cast<double>(magnitude + (static_cast<std::uint64_t>(kDoubleBias - bias) << kDoubleMantissa));
}

}  // namespace

template <typename T>
std::span<T> HostTensor::as() {
  if (!stores<T>(type.dtype)) throw Error("a tensor " + type.to_string() + " cannot be read as another element type");
  return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
}

template <typename T>
std::span<const T> HostTensor::as() const {
  if (!stores<T>(type.dtype)) throw Error("a tensor " + type.to_string() + " cannot be read as another element type");
  return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
}

#define RIDGEPOINT_INSTANTIATE(T)            \
  template std::span<T> HostTensor::as<T>(); \
  template std::span<const T> HostTensor::as<T>() const;
RIDGEPOINT_INSTANTIATE(double)
RIDGEPOINT_INSTANTIATE(float)
RIDGEPOINT_INSTANTIATE(std::uint16_t)
RIDGEPOINT_INSTANTIATE(std::int64_t)
RIDGEPOINT_INSTANTIATE(std::int32_t)
RIDGEPOINT_INSTANTIATE(std::uint8_t)
#undef RIDGEPOINT_INSTANTIATE

double load_element(DType dtype, const void* element) {
  switch (dtype) {
    case DType::fp64: return read<double>(element);
    case DType::fp32: return read<float>(element);
    case DType::bf16:
    case DType::fp16: return widen_16(read<std::uint16_t>(element), LowFormat(dtype));
    case DType::int64: return static_cast<double>(read<std::int64_t>(element));
    case DType::int32: return read<std::int32_t>(element);
    case DType::boolean: return read<std::uint8_t>(element) != 0 ? 1.0 : 0.0;
    case DType::dynamic8:
    case DType::udynamic8: return dynamic_levels(dtype)[read<std::uint8_t>(element)];
    case DType::e4m3:
    case DType::e5m2: return float8_values(dtype)[read<std::uint8_t>(element)];
    case DType::low_half: return std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(element)});
    case DType::packed: break;  // a byte alone is no number
  }
  return 0.0;
}

void store_element(DType dtype, void* element, double value) {
  switch (dtype) {
    case DType::fp64: return write(element, value);
    case DType::fp32: return write(element, static_cast<float>(value));
    case DType::bf16:
    case DType::fp16: return write(element, round_to_16(value, LowFormat(dtype)));
    case DType::int64: return write(element, to_integer<std::int64_t>(value));
    case DType::int32: return write(element, to_integer<std::int32_t>(value));
    case DType::boolean: return write(element, static_cast<std::uint8_t>(value != 0.0));
    case DType::dynamic8:
    case DType::udynamic8: return write(element, dynamic_code(dtype, static_cast<float>(value)));
    case DType::e4m3:
    case DType::e5m2: return write(element, float8_code(dtype, value));
    case DType::low_half: return write(element, low_half_of(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
    case DType::packed: return;
  }
}

namespace {

// Converts a range of elements of two floating dtypes. The two that parameters have are converted without asking for
// the dtypes at every element.
void convert_elements(DType from, const std::byte* source, DType to, std::byte* target, std::size_t count) {
  if (from == DType::fp32 && is_low(to)) {
    const LowFormat format(to);
    for (std::size_t i = 0; i < count; ++i) write(target + 2 * i, round_to_16(read<float>(source + 4 * i), format));
  } else if (is_low(from) && to == DType::fp32) {
    const LowFormat format(from);
    for (std::size_t i = 0; i < count; ++i)
      write(target + 4 * i, static_cast<float>(widen_16(read<std::uint16_t>(source + 2 * i), format)));
  } else {
    for (std::size_t i = 0; i < count; ++i)
      store_element(to, target + i * size_bytes(to), load_element(from, source + i * size_bytes(from)));
  }
}

}  // namespace

void convert(const HostTensor& tensor, HostTensor& result) {
  const DType from = tensor.type.dtype, to = result.type.dtype;
  if (!is_floating(from) || !is_floating(to)) {
    throw Error("cannot convert " + std::string(name(from)) + " to " + std::string(name(to)) +
                ": only floating tensors can be converted");
  }
  constexpr std::int64_t kGrain = 1 << 15;
  parallel_for(tensor.type.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    convert_elements(from, tensor.data.data() + first * size_bytes(from), to,
                     result.data.data() + first * size_bytes(to), static_cast<std::size_t>(end - begin));
  });
}

HostTensor convert(const HostTensor& tensor, DType dtype) {
  HostTensor result(TensorType{dtype, tensor.type.shape});
  convert(tensor, result);
  return result;
}

double scalar_of(const HostTensor& tensor) { return convert(tensor, DType::fp64).as<double>()[0]; }

}  // namespace ridgepoint
