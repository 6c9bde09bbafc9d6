// The parameters of the attention kernels: plain structs that the host fills and device code reads, so this header
// compiles under both compilers and includes nothing of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

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
// when the semaphore of that block of queries is n.
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
  float* dq_sums = nullptr;        // a block of queries after the other, each as the kernel's lanes hold it
  unsigned* semaphores = nullptr;  // a block of queries each
  unsigned* started = nullptr;     // how many blocks have
  std::int32_t batch = 0, queries = 0, keys = 0, width = 0;
  float scale = 1;
  bool causal = false;
};

}  // namespace ridgepoint::cuda
