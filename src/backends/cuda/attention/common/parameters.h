// The parameters of the attention kernels. Host and device code both include this header, so it uses plain structs and
// no other header of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/tensor_map.h"

namespace ridgepoint::cuda {

// Matrices of rows whose elements are contiguous and which begin at multiples of 16 bytes. Strides are in elements; row
// r of matrix (o, i) begins at data + o outer + i / group inner + r row: a head of keys and values is that of a group
// of heads of queries.
template <class Pointer>
struct AttentionRows {
  Pointer data = nullptr;
  std::int64_t outer = 0, inner = 0;
  std::int32_t row = 0;
  Divisor group;
};
using AttentionOperand = AttentionRows<const void*>;
using AttentionResult = AttentionRows<void*>;

// o = softmax(scale q k^T) v for q [B,S,D], k and v [B,K,D] or one for each group, with the log-sum-exp of each row of
// scores, dense [B,S]. Matrix b of an operand or a result is matrix (b / inner_count, b % inner_count).
// `causal` applies the causal mask and needs K = S: query i attends to keys 0 to i, and with a window, which is 0 for
// none, to the last of these. With a soft cap, which is 0 for none, scores are cap tanh(scale q k^T / cap).
struct AttentionForward {
  AttentionOperand q, k, v;
  AttentionResult o;
  float* log_sum_exp = nullptr;
  Divisor inner_count;
  std::int32_t queries = 0, keys = 0, width = 0;  // S, K, D
  float scale = 1;
  bool causal = false;
  std::int32_t window = 0;
  float soft_cap = 0;
};

// An operand as Hopper's copy engine sees it, with the indices (column, row, inner / group, outer). A batch dimension
// along which the operand is repeated has one index, 0: `inner` and `outer` are then 0, and 1 otherwise.
struct AttentionMap {
  TensorMap map;
  Divisor group;
  std::int32_t inner = 1, outer = 1;
};

// AttentionForward for Hopper. Kernels with a window have no test for none: it is then as long as the longer sequence.
struct HopperAttentionForward {
  AttentionMap q, k, v;
  AttentionResult o;
  float* log_sum_exp = nullptr;
  Divisor inner_count;
  Divisor blocks;                                 // of queries, in a matrix
  Divisor set;                                    // matrices whose tiles are taken in turn (hopper_division.h)
  Divisor tiles_of_set;                           // that, times `blocks`
  std::int32_t tiles = 0;                         // matrices x blocks
  std::int32_t first_sorted = 0;                  // of the last matrices, whose tiles are taken longest first
  Divisor sorted;                                 // their number
  std::int32_t queries = 0, keys = 0, width = 0;  // S, K, D
  float scale = 1;
  bool causal = false;
  std::int32_t window = 0;
  float soft_cap = 0;
  float tanh_scale = 0;  // 2 log2(e) scale / soft cap
  // Where tiles are divided: the steps of keys of a matrix, and two parts of tiles for each thread block.
  std::int32_t steps_of_matrix = 0;
  float* part_values = nullptr;
  float* part_log_sum_exp = nullptr;
};

// The backward of the same. With tables, q and k are rotary embeddings (ops/rules/rope.cpp) of tensors whose
// gradients dq and dk then are. The gradient of q is summed over blocks of keys in their order: block n adds to a block
// of queries when the semaphore of that block of queries is n, counted from the first block of keys that these see.
struct AttentionBackward {
  AttentionOperand d_o, q, k, v, o;
  const float* log_sum_exp = nullptr;
  AttentionResult dq, dk, dv;
  const float* cosines = nullptr;  // [S,pairs] of the first 2 `pairs` columns; Hopper's kernels alone
  const float* sines = nullptr;
  float* products = nullptr;       // [B,S], sum(do o) of each query
  float* dq_sums = nullptr;        // by block of queries, each in the order of the kernel's registers
  unsigned* semaphores = nullptr;  // one for each block of queries
  unsigned* started = nullptr;     // number of blocks that have started
  Divisor inner_count;
  std::int32_t batch = 0, queries = 0, keys = 0, width = 0;
  std::int32_t pairs = 0;
  std::int32_t summed_heads = 1;  // of q, whose gradients of k and v are added (Hopper's kernels alone)
  float scale = 1;
  bool causal = false;
  std::int32_t window = 0;
  float soft_cap = 0;
  // Hopper's kernels alone (hopper_division.h): the order of blocks of keys, and what is left of those that are
  // divided.
  Divisor set;             // heads of k in one
  Divisor numbers_of_set;  // that, times the blocks of keys of a head and the parts of its heads of q
  Divisor parts;           // of the heads of q that share k and v; a part adds to what the one before has left
  std::int32_t heads_of_part = 1;
  Divisor groups;           // heads of k, of the whole batch
  Divisor chunk;            // steps of queries
  std::int32_t slices = 1;  // of the sums of dq; block n adds to number n % slices
  float* key_sums = nullptr;
  unsigned* key_semaphores = nullptr;  // one for each of the eight warps that have a block of keys
};

// AttentionBackward for Hopper, with the window as in the forward. The kernels before and after take `rest`.
struct HopperAttentionBackward {
  AttentionMap d_o, q, k, v;
  AttentionBackward rest;
  float tanh_scale = 0;
};

// An fp32 operand as fp16 parts in device memory: tiles of rows (attention_parts.cuh), and the largest magnitude of
// each tile, or of each of its rows.
struct AttentionParts {
  char* tiles = nullptr;
  float* largest = nullptr;
};

// Attention of fp32 operands on Hopper, without a window and a soft cap: `rest` has the operands, from which the first
// kernel makes the parts that the second one reads. k and v have `key_batch` matrices.
struct HopperSplitForward {
  AttentionForward rest;
  AttentionParts q, k, v;
  std::int32_t batch = 0, key_batch = 0;
  std::int32_t together = 1;  // matrices whose blocks of queries run side by side
};
struct HopperSplitBackward {
  AttentionBackward rest;
  AttentionParts d_o, q, k, v;
  std::int32_t key_batch = 0;
};

}  // namespace ridgepoint::cuda
