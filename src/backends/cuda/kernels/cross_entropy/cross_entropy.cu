// Cross-entropy of logits [rows, vocabulary] with targets [rows] (src/ops/rules/cross_entropy.cpp), fp32: for each row
// the log-sum-exp minus the target's logit. The logits are read once: the sum is rescaled when the maximum grows
// (Milakov & Gimelshein 2018). A target outside the vocabulary gives a NaN loss.
// grid (rows), block (256)
#include <math_constants.h>

#include "backends/cuda/device/aligned_row.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kBlockWarps = kBlockThreads / kWarpLanes;
constexpr int kVectorsInFlight = 4;

// The sum of exp(x - base()) over some x, and their maximum.
struct ScaledSum {
  float maximum;
  float sum;

  // 0 if all x are -inf, so that x - base() is not NaN.
  __device__ __forceinline__ float base() const { return maximum == -CUDART_INF_F ? 0.0F : maximum; }
  __device__ __forceinline__ void raise(float other) {
    if (!(other > maximum)) return;
    sum *= expf(maximum - other);
    maximum = other;
  }
  __device__ __forceinline__ void merge(const ScaledSum& other) {
    raise(other.maximum);
    sum += other.sum * expf(other.maximum - base());
  }
};

__device__ __forceinline__ ScaledSum merge_warp(ScaledSum own) {
#pragma unroll
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    own.merge({__shfl_xor_sync(kAllLanes, own.maximum, distance), __shfl_xor_sync(kAllLanes, own.sum, distance)});
  }
  return own;
}

__device__ __forceinline__ ScaledSum sum_row(const AlignedRow& row, const float* __restrict__ logits) {
  ScaledSum own{-CUDART_INF_F, 0.0F};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < row.edges()) {
    const float x = logits[row.edge(thread)];
    own.raise(x);
    own.sum += expf(x - own.base());
  }
  const auto* vectors = reinterpret_cast<const float4*>(logits + row.head);
  for (int first = thread; first < row.vectors; first += kBlockThreads * kVectorsInFlight) {
    float4 x[kVectorsInFlight];
    float maximum = -CUDART_INF_F;
#pragma unroll
    for (int u = 0; u < kVectorsInFlight; ++u) {
      const int i = first + u * kBlockThreads;
      x[u] = i < row.vectors ? vectors[i] : make_float4(-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F);
      maximum = fmaxf(maximum, fmaxf(fmaxf(x[u].x, x[u].y), fmaxf(x[u].z, x[u].w)));
    }
    own.raise(maximum);
    const float base = own.base();
#pragma unroll
    for (int u = 0; u < kVectorsInFlight; ++u) {
      own.sum += (expf(x[u].x - base) + expf(x[u].y - base)) + (expf(x[u].z - base) + expf(x[u].w - base));
    }
  }
  return own;
}

}  // namespace
}  // namespace ridgepoint::cuda

extern "C" __global__ void __launch_bounds__(256)
    cross_entropy_forward_block_row(const float* __restrict__ logits, const long long* __restrict__ targets,
                                    float* __restrict__ losses, float* __restrict__ log_sum_exps, int vocabulary) {
  using namespace ridgepoint::cuda;
  __shared__ ScaledSum warps[kBlockWarps];
  const float* row = logits + static_cast<long long>(blockIdx.x) * vocabulary;
  const ScaledSum own = merge_warp(sum_row(AlignedRow(row, vocabulary), row));
  if (threadIdx.x % kWarpLanes == 0) warps[threadIdx.x / kWarpLanes] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ScaledSum all = warps[0];
  for (int warp = 1; warp < kBlockWarps; ++warp) all.merge(warps[warp]);
  const float log_sum_exp = all.maximum + logf(all.sum);
  const long long target = targets[blockIdx.x];
  const bool inside = target >= 0 && target < vocabulary;
  losses[blockIdx.x] = inside ? log_sum_exp - row[target] : CUDART_NAN_F;
  log_sum_exps[blockIdx.x] = log_sum_exp;
}
