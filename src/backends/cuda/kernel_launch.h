// What the host side of hand-written kernels shares.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/context.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {

inline constexpr std::int64_t kVectorBytes = 16;

// A kernel function and the grid it runs with.
struct Launchable {
  CUfunction function = nullptr;
  const char* name = "";
  LaunchShape shape;

  bool is_empty() const { return shape.grid_x == 0 || shape.grid_y == 0; }
};

inline bool are_vector_aligned(std::initializer_list<const void*> addresses) {
  std::uintptr_t bits = 0;
  for (const void* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return bits % kVectorBytes == 0;
}

// ceil(items / per_block).
inline unsigned block_count(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

// For sizes that kernels hold in 32 bits. Throws Error (unsupported) naming what is too large.
inline int checked_int(std::int64_t size, const char* what) {
  constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - (std::int64_t{1} << 16);
  if (size > kLargest) {
    throw Error(fmt::format("{} is {}; CUDA kernels take up to {}; make it smaller", what, size, kLargest),
                ErrorKind::unsupported);
  }
  return static_cast<int>(size);
}

}  // namespace ridgepoint::cuda
