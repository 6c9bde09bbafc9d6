// Sizes rounded up: quotients and multiples of non-negative integers.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ridgepoint {

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <typename T>
constexpr T round_up(T size, std::type_identity_t<T> multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

}  // namespace ridgepoint
