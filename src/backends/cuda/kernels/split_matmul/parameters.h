// The parameters of the kernel of split_matmul_wgmma.cu: plain structs that the host fills and device code reads, so
// this header compiles under both compilers and includes nothing of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// c [M,N] = a [M,K] b [K,N], batched, in fp32 (split_matmul_wgmma.cu). Tiles of c are divided along K into
// steps, and the steps dealt out evenly: `whole_rounds` times every block takes a whole tile, then each an equal
// stretch of the steps of what is left, whose ends may lie within a tile.
struct SplitMatmul {
  static constexpr int kMaxBatchAxes = 3;
  static constexpr int kStepK = 64;
  static constexpr int kReaderThreads = 256;

  // Shared memory for a step of a tile: a's elements, rows padded by 32 bytes; and the three bf16 parts of b's.
  static constexpr int stage_bytes(int rows, int columns) {
    return rows * (kStepK * 4 + 32) + columns * kStepK * 3 * 2;
  }
  static constexpr int stages(int rows, int columns) { return 3 * stage_bytes(rows, columns) <= 225 * 1024 ? 3 : 2; }

  struct Matrix {
    std::int64_t leading = 0;  // elements between lines: rows, or columns where those are contiguous
    std::int64_t batch_strides[kMaxBatchAxes] = {};
  };

  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  void* partial_sums = nullptr;    // a tile a block
  unsigned* is_written = nullptr;  // two a block, zero before and after every launch
  Matrix a_layout, b_layout, c_layout;
  std::int32_t m = 0, n = 0, k = 0;
  std::int32_t batch_sizes[kMaxBatchAxes] = {1, 1, 1};  // outermost first
  std::int32_t tiles_m = 0, tiles_n = 0;
  std::int32_t steps = 0;  // of a tile
  std::int32_t whole_rounds = 0;
  std::int32_t shared_steps = 0;
};

}  // namespace ridgepoint::cuda
