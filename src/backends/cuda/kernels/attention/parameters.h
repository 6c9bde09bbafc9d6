// The parameters of the attention kernels. Host and device code both include this header, so it uses plain structs and
// no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// o = softmax(scale q k^T) v for q [B,S,D], k and v [B,K,D], dense, with the log-sum-exp of each row of scores [B,S].
// `causal` applies the causal mask and needs K = S: query i attends to keys 0 to i.
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

// The backward of the same. The gradient of q is summed over blocks of keys in their order: block n adds to a block of
// queries when the semaphore of that block of queries is n.
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
  float* products = nullptr;       // [B,S], sum(do o) of each query
  float* dq_sums = nullptr;        // by block of queries, each in the order of the kernel's registers
  unsigned* semaphores = nullptr;  // one for each block of queries
  unsigned* started = nullptr;     // number of blocks that have started
  std::int32_t batch = 0, queries = 0, keys = 0, width = 0;
  float scale = 1;
  bool causal = false;
};

}  // namespace ridgepoint::cuda
