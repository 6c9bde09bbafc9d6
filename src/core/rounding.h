// Sizes rounded up: quotients and multiples of non-negative integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ridgepoint {

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <typename T>
constexpr T round_up(T size, std::type_identity_t<T> multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// The sizes of blocks of device memory: every allocator rounds a request up to a multiple of 512 bytes, at least 512.
inline constexpr std::size_t kBlockBytes = 512;

// `requested_bytes` must be at most SIZE_MAX - 511.
constexpr std::size_t block_bytes(std::size_t requested_bytes) {
  return requested_bytes == 0 ? kBlockBytes : (requested_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

}  // namespace ridgepoint
