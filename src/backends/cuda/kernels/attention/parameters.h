// The tilings and parameters of the attention kernels: plain structs that the host fills and device code reads, so this
// header compiles under both compilers and includes nothing of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

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

}  // namespace ridgepoint::cuda
