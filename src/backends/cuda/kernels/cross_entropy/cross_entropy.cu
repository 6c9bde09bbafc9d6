// Cross-entropy of logits [rows, vocabulary], whose rows are `logits_row` elements apart, with targets [rows]
// (src/ops/rules/cross_entropy.cpp): for each row the log-sum-exp minus the target's logit, in fp32. The logits are
// read once: the sum is rescaled when the maximum grows (Milakov & Gimelshein 2018). A target outside the vocabulary
// gives a NaN loss. The loss has z_loss times the square of the log-sum-exp as well. grid (rows), block (256)
#include <math_constants.h>

#include "backends/cuda/device/aligned_row.cuh"
#include "backends/cuda/device/exponential.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kBlockWarps = kBlockThreads / kWarpLanes;
constexpr int kElementsInFlight = 32;  // of a thread: the row is read once, so memory is the limit

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
  template <typename T, int kWidth, int kVectors>
  __device__ __forceinline__ void add(const Packet<T, kWidth> (&vectors)[kVectors]) {
    float largest = -CUDART_INF_F;
#pragma unroll
    for (int i = 0; i < kVectors * kWidth; ++i) {
      largest = fmaxf(largest, convert_to<float>(vectors[i / kWidth].values[i % kWidth]));
    }
    raise(largest);
    const float from = base();
    float parts[4] = {};
#pragma unroll
    for (int i = 0; i < kVectors * kWidth; ++i) {
      parts[i % 4] += exp2_fast((convert_to<float>(vectors[i / kWidth].values[i % kWidth]) - from) * kLog2E);
    }
    sum += (parts[0] + parts[1]) + (parts[2] + parts[3]);
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

template <typename T>
__device__ __forceinline__ ScaledSum sum_row(const AlignedRow<T>& row, const T* __restrict__ logits) {
  constexpr int kWidth = AlignedRow<T>::kWidth;
  constexpr int kVectorsInFlight = kElementsInFlight / kWidth;
  ScaledSum own{-CUDART_INF_F, 0.0F};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < row.edges()) {
    const auto x = convert_to<float>(logits[row.edge(thread)]);
    own.raise(x);
    own.sum += expf(x - own.base());
  }
  const auto* vectors = reinterpret_cast<const Packet<T, kWidth>*>(logits + row.head);
  constexpr int kStride = kBlockThreads * kVectorsInFlight;
  int first = thread;
#pragma unroll 1
  for (; first + kStride - kBlockThreads < row.vectors; first += kStride) {
    Packet<T, kWidth> x[kVectorsInFlight];
#pragma unroll
    for (int u = 0; u < kVectorsInFlight; ++u) x[u] = vectors[first + u * kBlockThreads];
    own.add(x);
  }
#pragma unroll 1
  for (; first < row.vectors; first += kBlockThreads) {
    const Packet<T, kWidth> x[1] = {vectors[first]};
    own.add(x);
  }
  return own;
}

template <typename T>
__device__ __forceinline__ void compute_row(const T* __restrict__ logits, const long long* __restrict__ targets,
                                            float* __restrict__ losses, float* __restrict__ log_sum_exps,
                                            int vocabulary, long long logits_row, float z_loss) {
  __shared__ ScaledSum warps[kBlockWarps];
  const T* row = logits + blockIdx.x * logits_row;
  const ScaledSum own = merge_warp(sum_row(AlignedRow<T>(row, vocabulary), row));
  if (threadIdx.x % kWarpLanes == 0) warps[threadIdx.x / kWarpLanes] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ScaledSum all = warps[0];
  for (int warp = 1; warp < kBlockWarps; ++warp) all.merge(warps[warp]);
  const float log_sum_exp = all.maximum + logf(all.sum);
  const long long target = targets[blockIdx.x];
  const bool inside = target >= 0 && target < vocabulary;
  const float loss = inside ? log_sum_exp - convert_to<float>(row[target]) : CUDART_NAN_F;
  losses[blockIdx.x] = z_loss == 0.0F ? loss : loss + z_loss * log_sum_exp * log_sum_exp;
  log_sum_exps[blockIdx.x] = log_sum_exp;
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_CROSS_ENTROPY(dtype, T)                                                                   \
  extern "C" __global__ void __launch_bounds__(256) cross_entropy_forward_block_row_##dtype(                 \
      const T* logits, const long long* targets, float* losses, float* log_sum_exps, int vocabulary,         \
      long long logits_row, float z_loss) {                                                                  \
    ridgepoint::cuda::compute_row<T>(logits, targets, losses, log_sum_exps, vocabulary, logits_row, z_loss); \
  }

RIDGEPOINT_CROSS_ENTROPY(fp32, float)
RIDGEPOINT_CROSS_ENTROPY(bf16, __nv_bfloat16)
RIDGEPOINT_CROSS_ENTROPY(fp16, __half)
