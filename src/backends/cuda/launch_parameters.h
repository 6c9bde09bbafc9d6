// What hand-written kernels are told in one parameter: plain structs that the host fills and device code reads, so
// this header compiles under both compilers and includes nothing of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// Division of n < 2^31 by a number fixed at construction: a multiplication and a shift (Granlund & Montgomery 1994).
struct Divisor {
  std::uint32_t value = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  Divisor() = default;
  explicit Divisor(std::uint32_t divisor) : value(divisor) {
    while (shift < 31 && (std::uint32_t{1} << shift) < divisor) ++shift;
    const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
    multiplier = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }
};

// The rows of rope's operand [...,D]: a loop nest over its leading dimensions, outermost first.
struct RopeRows {
  static constexpr int kMaxDepth = 5;

  std::uint32_t items = 0;  // of work: vectors, or pairs where the operand cannot be read in vectors
  Divisor items_per_row;
  std::int32_t depth = 0;
  std::int32_t position_axis = 0;
  Divisor sizes[kMaxDepth];
  std::int64_t strides[kMaxDepth] = {};
  std::int64_t element_stride = 1;
  float sine_sign = 1;  // -1 rotates back
};

struct AdamWConstants {
  float learning_rate, beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  float decay;  // what is left of a parameter: 1 - learning_rate * weight_decay
  float log_beta1, log_beta2;
};

// The tensors of one launch. All presets of the model fit in one (xl has the most, 435).
struct AdamWTable {
  static constexpr int kCapacity = 448;
  static constexpr int kChunkElements = 4096;  // one block's work

  const float* step = nullptr;
  const float* gradient_factor = nullptr;  // null: 1
  const float* skip = nullptr;             // null: 0
  AdamWConstants constants = {};
  std::int32_t tensors = 0;
  std::uint32_t first_chunk[kCapacity] = {};
  std::int64_t elements[kCapacity] = {};
  float* parameters[kCapacity] = {};
  const float* gradients[kCapacity] = {};
  float* first_moments[kCapacity] = {};
  float* second_moments[kCapacity] = {};
};
static_assert(sizeof(AdamWTable) <= 32764, "kernel parameters end there (sm_70 and later)");

// c [M,N] = a [M,K] b [K,N], batched, in fp32 (kernels/hopper/split_matmul.cu). Tiles of c are cut along K into steps,
// and the steps dealt out evenly: `whole_rounds` times every block takes a whole tile, then each an equal stretch of
// the steps of what is left, whose ends may lie within a tile.
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
