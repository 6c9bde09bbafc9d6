// The parameters of the attention kernels. Host and device code both include this header, so it uses plain structs and
// no other header of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/divisor.h"

namespace ridgepoint::cuda {

// Matrices of rows whose elements are contiguous and which begin at multiples of 16 bytes. Strides are in elements; row
// r of matrix (o, i) begins at data + o outer + i inner + r row.
template <class Pointer>
struct AttentionRows {
  Pointer data = nullptr;
  std::int64_t outer = 0, inner = 0;
  std::int32_t row = 0;
};
using AttentionOperand = AttentionRows<const void*>;
using AttentionResult = AttentionRows<void*>;

// o = softmax(scale q k^T) v for q [B,S,D], k and v [B,K,D], with the log-sum-exp of each row of scores, dense [B,S].
// Matrix b of an operand or a result is matrix (b / inner_count, b % inner_count).
// `causal` applies the causal mask and needs K = S: query i attends to keys 0 to i.
struct AttentionForward {
  AttentionOperand q, k, v;
  AttentionResult o;
  float* log_sum_exp = nullptr;
  Divisor inner_count;
  std::int32_t queries = 0, keys = 0, width = 0;  // S, K, D
  float scale = 1;
  bool causal = false;
};

// The backward of the same. The gradient of q is summed over blocks of keys in their order: block n adds to a block of
// queries when the semaphore of that block of queries is n.
struct AttentionBackward {
  AttentionOperand d_o, q, k, v, o;
  const float* log_sum_exp = nullptr;
  AttentionResult dq, dk, dv;
  float* products = nullptr;       // [B,S], sum(do o) of each query
  float* dq_sums = nullptr;        // by block of queries, each in the order of the kernel's registers
  unsigned* semaphores = nullptr;  // one for each block of queries
  unsigned* started = nullptr;     // number of blocks that have started
  Divisor inner_count;
  std::int32_t batch = 0, queries = 0, keys = 0, width = 0;
  float scale = 1;
  bool causal = false;
};

}  // namespace ridgepoint::cuda
