#include "ridgepoint/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/integers.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

template <typename T>
bool stores(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return dtype == DType::fp64;
  if constexpr (std::is_same_v<T, float>) return dtype == DType::fp32;
  if constexpr (std::is_same_v<T, std::int64_t>) return dtype == DType::int64;
  if constexpr (std::is_same_v<T, std::int32_t>) return dtype == DType::int32;
  if constexpr (std::is_same_v<T, std::uint16_t>) return is_low(dtype) && size_bytes(dtype) == sizeof(T);
  return dtype == DType::boolean;
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

int mantissa_bits(DType dtype) { return traits(dtype).digits - 1; }  // without the implicit bit
int exponent_bias(DType dtype) { return (1 << (traits(dtype).exponent_bits - 1)) - 1; }

// Rounds a double to bf16 or fp16, to nearest even, without an intermediate fp32.
std::uint16_t round_to_16(double value, DType dtype) {
  const int mantissa = mantissa_bits(dtype);
  const int bias = exponent_bias(dtype);
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int exponent_bits = traits(dtype).exponent_bits;
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

double widen_16(std::uint16_t bits, DType dtype) {
  const int mantissa = mantissa_bits(dtype);
  const int bias = exponent_bias(dtype);
  const int exponent_bits = traits(dtype).exponent_bits;
  const int field = (bits >> mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (field == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (field == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), field - bias - mantissa);
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
    case DType::fp64:
      return read<double>(element);
    case DType::fp32:
      return read<float>(element);
    case DType::bf16:
    case DType::fp16:
      return widen_16(read<std::uint16_t>(element), dtype);
    case DType::int64:
      return static_cast<double>(read<std::int64_t>(element));
    case DType::int32:
      return read<std::int32_t>(element);
    case DType::boolean:
      return read<std::uint8_t>(element) != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

void store_element(DType dtype, void* element, double value) {
  switch (dtype) {
    case DType::fp64:
      return write(element, value);
    case DType::fp32:
      return write(element, static_cast<float>(value));
    case DType::bf16:
    case DType::fp16:
      return write(element, round_to_16(value, dtype));
    case DType::int64:
      return write(element, to_integer<std::int64_t>(value));
    case DType::int32:
      return write(element, to_integer<std::int32_t>(value));
    case DType::boolean:
      return write(element, static_cast<std::uint8_t>(value != 0.0));
  }
}

HostTensor convert(const HostTensor& tensor, DType dtype) {
  if (!is_floating(tensor.type.dtype) || !is_floating(dtype)) {
    throw Error("cannot convert " + std::string(name(tensor.type.dtype)) + " to " + std::string(name(dtype)) +
                ": only floating tensors can be converted");
  }
  HostTensor result(TensorType{dtype, tensor.type.shape});
  const std::size_t from = size_bytes(tensor.type.dtype);
  const std::size_t to = size_bytes(dtype);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.type.elements()); ++i) {
    store_element(dtype, result.data.data() + i * to, load_element(tensor.type.dtype, tensor.data.data() + i * from));
  }
  return result;
}

}  // namespace ridgepoint
