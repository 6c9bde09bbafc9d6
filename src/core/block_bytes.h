// The sizes of blocks of device memory: every allocator rounds a request up to a multiple of 512 bytes, at least 512.
#pragma once

#include <cstddef>

namespace ridgepoint {

inline constexpr std::size_t kBlockBytes = 512;

// `requested_bytes` must be at most SIZE_MAX - 511.
constexpr std::size_t block_bytes(std::size_t requested_bytes) {
  return requested_bytes == 0 ? kBlockBytes : (requested_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

}  // namespace ridgepoint
