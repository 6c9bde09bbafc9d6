// The parameters of the kernels of low_matmul.cuh. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/tensor_map.h"

namespace ridgepoint::cuda {

// c[m,n] = a[m,k] b[k,n] + addend, for each matrix of a batch.
struct LowMatmul {
  // a, b and c as the copy engine sees them: (contiguous, other, matrix of the batch, 0).
  TensorMap a, b, c;
  const void* addend = nullptr;  // in the layout of c; null: none
  float* partial_sums = nullptr;
  unsigned* is_written = nullptr;  // two words for each block, 0 before and after a launch

  std::int64_t leading = 0;  // elements between rows of c
  std::int64_t batch_stride = 0;
  std::int32_t m = 0, n = 0;
  std::int32_t steps = 0;         // of kStepK along k
  std::int32_t part_columns = 0;  // between the parts of b's columns that a tile has, where it has several

  // Tiles of a cluster: its blocks' tiles side by side.
  std::int32_t tiles_m = 0, tiles_n = 0;
  std::int32_t tiles = 0;  // in the whole batch

  // Clusters compute tiles round by round: cluster i has tile `round * clusters + i`. In the last round some may have
  // none. Of the tiles after whole_rounds, if any is shared, each cluster has an equal share of the steps (split-K).
  std::int32_t whole_rounds = 0;
  std::int32_t shared_steps = 0;
};

// What host and device agree on.
struct LowMatmulTiling {
  static constexpr int kStepK = 64;
  static constexpr int kGroups = 2;  // warpgroups that multiply; one more loads
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kElementBytes = 2;
  static constexpr int kAlignmentBytes = 1024;            // of tiles in shared memory
  static constexpr int kMostSharedBytes = 232448 - 1024;  // less the barriers

  // The bytes of a row of a panel of results in shared memory, which is one row of a box of c: as wide as the columns
  // of a tile are whole panels.
  static constexpr int line_bytes(int columns, int result_bytes) {
    int bytes = 128;
    while (columns * result_bytes % bytes != 0) bytes /= 2;
    return bytes;
  }
  static constexpr int panel_bytes(int columns, int result_bytes) { return 64 * line_bytes(columns, result_bytes); }
  static constexpr int staging_bytes(int columns, int result_bytes, int buffers) {
    return kGroups * buffers * panel_bytes(columns, result_bytes);
  }
  static constexpr int a_bytes(int rows) { return rows * kStepK * kElementBytes; }
  // Lines of k hold panels of 64 columns, lines of columns only those of the tile.
  static constexpr int b_bytes(int columns, bool k_contiguous) {
    return (k_contiguous ? columns : (columns + 63) / 64 * 64) * kStepK * kElementBytes;
  }
  // `reserved` bytes are for what runs beside the product.
  static constexpr int stages(int rows, int columns, bool k_contiguous, int result_bytes, int buffers = 2,
                              int reserved = 0) {
    const int stage = a_bytes(rows) + b_bytes(columns, k_contiguous);
    const int staging = staging_bytes(columns, result_bytes, buffers);
    const int most = (kMostSharedBytes - kAlignmentBytes - staging - reserved) / stage;
    return most < 8 ? most : 8;
  }
  static constexpr int shared_bytes(int rows, int columns, bool k_contiguous, int result_bytes, int buffers = 2,
                                    int reserved = 0) {
    return kAlignmentBytes + staging_bytes(columns, result_bytes, buffers) + reserved +
           stages(rows, columns, k_contiguous, result_bytes, buffers, reserved) *
               (a_bytes(rows) + b_bytes(columns, k_contiguous));
  }
};

}  // namespace ridgepoint::cuda
