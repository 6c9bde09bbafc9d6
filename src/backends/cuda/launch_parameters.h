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

// How tiled attention of 16-bit operands is cut for heads of up to `width` elements (kernels/attention_forward.cu and
// attention_backward.cu). Rows in shared memory are padded to a power of two.
struct AttentionTiling {
  int width = 0;
  int rows = 0;  // of q a block
  int keys = 0;  // a step, or a block where blocks go over queries
  int warps = 0;
  int blocks = 1;  // that share a multiprocessor

  constexpr int threads() const { return 32 * warps; }
  constexpr int row_chunks() const { return width <= 64 ? 8 : width <= 128 ? 16 : 32; }  // of 16 bytes
  constexpr int row_bytes() const { return 16 * row_chunks(); }
  // q; two stages of k and v.
  constexpr int forward_shared_bytes() const { return (rows + 2 * 2 * keys) * row_bytes(); }
  // k and v; two stages of q and of the gradient of o, and of a log-sum-exp and a product a query; two of the
  // gradient of scores.
  constexpr int backward_shared_bytes() const {
    return (2 * keys + 2 * 2 * rows) * row_bytes() + 2 * 2 * 4 * rows + 2 * 2 * keys * rows;
  }
};
inline constexpr AttentionTiling kForwardTilings[] = {
    {64, 128, 64, 4, 2}, {96, 128, 32, 4, 2}, {128, 128, 32, 4, 2}, {256, 64, 64, 4, 1}};
inline constexpr AttentionTiling kBackwardTilings[] = {
    {64, 64, 128, 8, 1}, {96, 64, 128, 8, 1}, {128, 64, 128, 8, 1}, {256, 64, 64, 8, 1}};

// The same for fp32 operands (kernels/attention_split_forward.cu and attention_split_backward.cu), whose tiles lie in
// shared memory as two tiles of fp16 parts.
struct SplitAttentionTiling {
  int width = 0;
  int rows = 0;
  int keys = 0;
  int warps = 0;

  static constexpr int kElementBytes = 2 * 2;
  // Sizes of tiles' largest: of k and v in four steps; of three in eight steps, in groups of four, and of k and v.
  static constexpr int kForwardScales = 4 * 2;
  static constexpr int kBackwardScales = 8 * 4 + 2;

  constexpr int threads() const { return 32 * warps; }
  // Two stages of k and v in parts, the elements of two more on their way from memory.
  constexpr int forward_shared_bytes() const { return 2 * 2 * keys * width * (kElementBytes + 4) + kForwardScales * 4; }
  // How many warps share 16 keys.
  constexpr int splits() const { return 16 * warps / keys; }
  // k and v in parts; two stages of q and the gradient of o in parts, the elements of two more, a log-sum-exp and a
  // product a query, and the gradient of scores; where warps share keys, the weights.
  constexpr int backward_shared_bytes() const {
    return 2 * keys * width * kElementBytes + 2 * rows * (2 * width * (kElementBytes + 4) + 2 * 4) +
           (2 + splits() - 1) * keys * rows * kElementBytes + kBackwardScales * 4;
  }
};
inline constexpr SplitAttentionTiling kSplitForwardTilings[] = {{64, 256, 32, 8}, {128, 128, 32, 8}};
inline constexpr SplitAttentionTiling kSplitBackwardTilings[] = {{64, 32, 128, 8}, {128, 32, 64, 8}};

// o = softmax(scale q k^T [masked]) v for q [B,S,D], k and v [B,K,D], dense, and the log-sum-exp of each row of scores
// [B,S]. Causal: K = S and each query sees the keys up to its own position.
struct AttentionForward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* log_sum_exp = nullptr;
  std::int32_t queries = 0, keys = 0, width = 0;  // S, K, D
  float scale = 1;
  bool causal = false;
};

// Its derivative. The gradient of q is summed over blocks of keys in their order: block n adds to a block of queries
// when `turns` of that block says n.
struct AttentionBackward {
  const void* d_o = nullptr;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* o = nullptr;
  const float* log_sum_exp = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  float* products = nullptr;    // [B,S], sum(do o) of each query
  float* dq_sums = nullptr;     // a block of queries after the other, each as the kernel's lanes hold it
  unsigned* turns = nullptr;    // a block of queries each
  unsigned* started = nullptr;  // how many blocks have
  std::int32_t batch = 0, queries = 0, keys = 0, width = 0;
  float scale = 1;
  bool causal = false;
};

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
