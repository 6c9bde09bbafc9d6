// Helpers for the host side of hand-written kernels.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/driver/context.h"
#include "core/rounding.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {

inline constexpr std::int64_t kVectorBytes = 16;

// A kernel function of a context and its launch shape.
struct Launchable {
  Launchable() = default;
  // The function `entry` of an image, with the dynamic shared memory of the shape.
  Launchable(CudaContext& of, const char* image, const char* entry, const LaunchShape& launch_shape)
      : context(&of), function(of.kernel(image, entry)), name(entry), shape(launch_shape) {
    if (shape.shared_bytes > 0) of.allow_shared(function, shape.shared_bytes);
  }

  bool is_empty() const { return shape.grid_x == 0 || shape.grid_y == 0; }
  // The arguments have exactly the types of the kernel's parameters.
  template <typename... Arguments>
  void launch(const Arguments&... arguments) const {
    void* list[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    context->launch(function, shape, list, name);
  }

  CudaContext* context = nullptr;
  CUfunction function = nullptr;
  const char* name = "";
  LaunchShape shape;
};

inline bool are_vector_aligned(std::initializer_list<const void*> addresses) {
  std::uintptr_t bits = 0;
  for (const void* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return bits % kVectorBytes == 0;
}

// ceil(items / per_block).
inline unsigned block_count(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(ceil_divide(items, per_block));
}

// The following throw Error (unsupported) with `what` if a size does not fit in 32 bits, or in the second dimension of
// a grid, which has at most 65535 blocks.
inline void require_at_most(std::int64_t size, std::int64_t largest, const char* what) {
  if (size <= largest) return;
  throw_error(ErrorKind::unsupported, "{} is {}, but CUDA kernels support at most {}", what, size, largest);
}
inline int checked_int(std::int64_t size, const char* what) {
  require_at_most(size, (std::int64_t{1} << 31) - (std::int64_t{1} << 16), what);
  return static_cast<int>(size);
}
inline unsigned checked_grid_y(std::int64_t items, std::int64_t per_block, const char* what) {
  constexpr std::int64_t kMostInY = 65535;
  require_at_most(items, kMostInY * per_block, what);
  return block_count(items, per_block);
}

// Flags with which the thread blocks of one launch tell each other that partial sums are written.

// The multiprocessors of the largest Hopper GPU: kernels that use the flags launch no more blocks.
inline constexpr int kMostBlocks = 132;

// Two words for each block, 0 between launches: the context's stream runs launches in order, and a failed launch makes
// the whole context unusable. Made at first use and kept like the context. Throws Error (out_of_memory).
unsigned* block_flags(CudaContext& context);

}  // namespace ridgepoint::cuda
