// What a warpgroup of attention_backward_wgmma.cu, which draws it, does with the scores of a step between products:
// weights, masks, and their gradients.
#pragma once

#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_hopper.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {

// threadIdx.x, read where it is used, so that a loop keeps nothing that follows from it in registers.
__device__ __forceinline__ int thread_index() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// The step of a warpgroup, with 64 keys of the block as rows of scores and the queries as columns.
template <class Element, HopperBackwardTiling kTiling>
class ScoresOfStep {
 protected:
  static constexpr int kRows = kTiling.rows;
  static constexpr int kRowSteps = kRows / 16;
  static constexpr int kKeyPanel = kTiling.keys * kLineBytes;
  static constexpr bool kSharesKeys = kTiling.shares_keys();

  __device__ ScoresOfStep(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                          Shared<kTiling>& shared, int group)
      : attention_(attention.rest), tanh_scale_(attention.tanh_scale), tiles_(tiles), shared_(shared), group_(group) {}

  // So that nothing that follows from these is computed before a loop and kept in registers.
  __device__ __forceinline__ void forget() { asm volatile("" : "+r"(tiles_.first), "+r"(group_)); }

  // In shared memory, because registers are scarce.
  __device__ __forceinline__ const Work<kTiling>& work() const { return shared_.work[number_ & 1]; }
  __device__ __forceinline__ int query_block() const { return work().end - step_ + work().first - 1; }
  __device__ __forceinline__ int first_query() const { return query_block() * kRows; }
  // The first of a thread's keys in the block; the other one is 8 further.
  static __device__ __forceinline__ int key_in_block(int thread) {
    if (kSharesKeys) thread %= kWarpgroupThreads;
    return thread / 32 * 16 + thread % 32 / 4;
  }

  // Scores become exp(scale s - log-sum-exp).
  __device__ __forceinline__ void compute_weights(int stage, float (&p)[kRows / 2]) const {
    const float scale = attention_.scale * kLog2E;
    const int columns = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      const float2 lse = *reinterpret_cast<const float2*>(&shared_.log_sum_exp[stage][8 * j + columns]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[4 * j + i] = exp2_fast(p[4 * j + i] * scale - (i % 2 == 0 ? lse.x : lse.y));
      }
    }
  }

  // With a soft cap, scores t = tanh(scale s / cap) become exp(cap t - log-sum-exp), packed, and what dp is multiplied
  // by: that times the cap's derivative, 1 - t^2. A masked t is -infinity, of which both are 0.
  __device__ __forceinline__ void compute_capped_weights(int stage, float (&p)[kRows / 2],
                                                         unsigned (&packed)[kRowSteps][4]) const {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) p[i] = tanh_fast(tanh_scale_ * p[i]);
    mask_if_needed(p, -INFINITY);
    const float scale = attention_.soft_cap * kLog2E;
    const int columns = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      const float2 lse = *reinterpret_cast<const float2*>(&shared_.log_sum_exp[stage][8 * j + columns]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& left = p[4 * j + 2 * half];
        float& right = p[4 * j + 2 * half + 1];
        const float left_weight = exp2_fast(left * scale - lse.x);
        const float right_weight = exp2_fast(right * scale - lse.y);
        packed[j / 2][j % 2 * 2 + half] = pack<Element>(left_weight, right_weight);
        left = left_weight - left_weight * fminf(left * left, 1);
        right = right_weight - right_weight * fminf(right * right, 1);
      }
    }
  }

  // Scores of queries that do not attend to a key become `masked`.
  __device__ __forceinline__ void mask_if_needed(float (&p)[kRows / 2], float masked) const {
    const int first_key = work().first_key + (kSharesKeys ? 0 : group_ * 64);
    const int query = first_query();
    const bool hides_first =
        has_window(kTiling.scores) && window_hides(first_key, query + kRows - 1, attention_.window);
    if (first_key + 64 <= attention_.keys && (!attention_.causal || first_key + 64 <= query + 1) && !hides_first)
      return;
    const int thread = thread_index();
    const int column = thread % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = work().first_key + key_in_block(thread) + 8 * half;
      // Queries before `begin` do not attend to the key.
      const int begin = key >= attention_.keys ? kRows : (attention_.causal ? key - query : 0) - column;
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        if (8 * j < begin) p[4 * j + 2 * half] = masked;
        if (8 * j + 1 < begin) p[4 * j + 2 * half + 1] = masked;
      }
      if constexpr (has_window(kTiling.scores)) {
        // The window hides the key from queries from `end` on.
        const int end = key + attention_.window - query - column;
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
          if (8 * j >= end) p[4 * j + 2 * half] = masked;
          if (8 * j + 1 >= end) p[4 * j + 2 * half + 1] = masked;
        }
      }
    }
  }

  // dp becomes ds.
  __device__ __forceinline__ void compute_score_gradients(const float (&p)[kRows / 2], int stage,
                                                          float (&ds)[kRows / 2]) const {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      const float2 product = *reinterpret_cast<const float2*>(&shared_.products[stage][8 * j + column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        ds[4 * j + i] = p[4 * j + i] * (ds[4 * j + i] - (i % 2 == 0 ? product.x : product.y));
      }
    }
  }

  static __device__ __forceinline__ void pack_operands(const float (&from)[kRows / 2], unsigned (&to)[kRowSteps][4]) {
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) to[i / 4][i % 4] = pack<Element>(from[2 * i], from[2 * i + 1]);
  }

  // A line for each key, panels of 64 queries.
  __device__ __forceinline__ void store_score_gradients(const unsigned (&ds)[kRowSteps][4], int stage) const {
    const int thread = thread_index();
    const int lane = thread % 32;
    const int line = (kSharesKeys ? thread % kWarpgroupThreads : thread) / 32 * 16 + lane % 16;
#pragma unroll
    for (int step = 0; step < kRowSteps; ++step) {
      const int chunk = step % 4 * 2 + lane / 16;
      store_matrices(tiles_.ds(stage) + step / 4 * kKeyPanel + swizzled(line, chunk), ds[step]);
    }
    publish_to_tensor_cores();
  }

  // Rounded weights become ds, of dp; also in shared memory, as store_score_gradients() leaves it.
  __device__ __forceinline__ void make_score_gradients(const float (&dp)[kRows / 2], int stage,
                                                       unsigned (&packed)[kRowSteps][4]) const {
    const int column = thread_index() % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      unsigned& pair = packed[i / 4][i % 4];
      asm volatile("" : "+r"(pair));  // not unpacked before, because registers are scarce
      const float2 product = *reinterpret_cast<const float2*>(&shared_.products[stage][i / 2 * 8 + column]);
      const float2 weight = unpack<Element>(pair);
      pair = pack<Element>(weight.x * (dp[2 * i] - product.x), weight.y * (dp[2 * i + 1] - product.y));
    }
    store_score_gradients(packed, stage);
  }

  const AttentionBackward& attention_;
  const float& tanh_scale_;
  SharedTiles<kTiling> tiles_;
  Shared<kTiling>& shared_;
  int group_;
  int step_ = 0;    // the number of steps before this one, of all blocks of keys
  int number_ = 0;  // of blocks of keys before this one
};

}  // namespace ridgepoint::cuda
