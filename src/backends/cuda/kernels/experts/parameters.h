// The parameters of the kernels of grouped_matmul.cu and grouped_matmul_wgmma.cu. Host and device code both include
// this header, so it uses plain structs and no other header of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/tensor_map.h"

namespace ridgepoint::cuda {

// The tile of the result that a block computes.
inline constexpr int kGroupedTile = 64;

// grouped_matmul: c [rows,columns] from a [rows,inner] and a matrix b of each expert. grouped_matmul_weights: a matrix
// c [inner,columns] of each expert from a [rows,inner] and b [rows,columns].
struct GroupedMatmul {
  const void* a = nullptr;
  const void* b = nullptr;
  const long long* offsets = nullptr;  // [experts + 1]
  void* c = nullptr;
  std::int32_t experts = 0;
  std::int32_t rows = 0;
  std::int32_t inner = 0;
  std::int32_t columns = 0;
};

// Which index of the operands is contiguous: grouped_matmul with a matrix [inner,columns] or [columns,inner] of each
// expert, and grouped_matmul_weights.
enum class GroupedForm { plain, transposed, weights };

// The tile of a block of Hopper's kernels, and its steps along the index of the sums.
struct HopperGroupedTiling {
  static constexpr int kRows = 128;
  static constexpr int kColumns = 256;
  static constexpr int kInner = 64;
  static constexpr int kStages = 4;
  static constexpr int kGroups = kRows / 64;  // warpgroups that multiply; one more loads
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kABytes = kRows * kInner * 2;
  static constexpr int kBBytes = kColumns * kInner * 2;
  static constexpr int kSharedBytes = 1024 + kStages * (kABytes + kBBytes);  // tiles begin at multiples of 1,024 bytes
  // Blocks that follow one another have this many tiles of rows, and then those of the next columns: together they
  // read little enough to stay in the level-2 cache.
  static constexpr int kRowsOfBand = 8;
};

// GroupedMatmul for Hopper: a and b as the copy engine sees them, with the indices (contiguous, other, expert).
struct HopperGroupedMatmul {
  TensorMap a, b;
  GroupedMatmul rest;
};

}  // namespace ridgepoint::cuda
