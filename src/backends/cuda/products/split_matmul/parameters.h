// The parameters of the kernel of split_matmul_wgmma.cu. Host and device code both include this header, so it uses
// plain structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// c [M,N] = a [M,K] b [K,N], plus an addend or not, batched, in fp32 (split_matmul_wgmma.cu). A tile of c needs a
// number of steps along K. Every block computes `whole_rounds` whole tiles; the steps of the remaining tiles are
// divided evenly among the blocks (split-K), so a block's range may begin and end within a tile.
struct SplitMatmul {
  static constexpr int kMaxBatchAxes = 3;
  static constexpr int kStepK = 64;
  static constexpr int kReaderThreads = 256;

  // The shared memory of one step of a tile: a's elements, with rows padded by 32 bytes, and the three bf16 parts of
  // b's elements.
  static constexpr int stage_bytes(int rows, int columns) {
    return rows * (kStepK * 4 + 32) + columns * kStepK * 3 * 2;
  }
  static constexpr int stages(int rows, int columns) { return 3 * stage_bytes(rows, columns) <= 225 * 1024 ? 3 : 2; }

  struct Matrix {
    std::int64_t leading = 0;  // elements between rows, or between columns if those are contiguous
    std::int64_t batch_strides[kMaxBatchAxes] = {};
  };

  const float* a = nullptr;
  const float* b = nullptr;
  const float* addend = nullptr;  // with c's layout; it may be c, and is null where nothing is added
  float* c = nullptr;
  void* partial_sums = nullptr;    // one tile for each block
  unsigned* is_written = nullptr;  // two for each block, 0 before and after every launch
  Matrix a_layout, b_layout, c_layout;
  std::int32_t m = 0, n = 0, k = 0;
  std::int32_t batch_sizes[kMaxBatchAxes] = {1, 1, 1};  // outermost first
  std::int32_t tiles_m = 0, tiles_n = 0;
  std::int32_t steps = 0;  // of a tile
  std::int32_t whole_rounds = 0;
  std::int32_t shared_steps = 0;  // of the tiles that several blocks share
};

}  // namespace ridgepoint::cuda
