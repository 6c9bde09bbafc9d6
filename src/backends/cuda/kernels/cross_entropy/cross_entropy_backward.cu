// The gradient of cross-entropy: output [rows, vocabulary] = (exp(logits - log_sum_exp) * share - onehot(target)) *
// gradient with share = 1 + 2 * z_loss * log_sum_exp, in the dtype of the logits, computed in fp32; the logits are read
// once, and the output may be the same memory. The gradient of row t is gradient[t * gradient_stride], or
// `every_gradient` if `gradient` is null. grid (rows, ceil(vocabulary / 4096)), block (256)
#include "backends/cuda/device/aligned_row.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kElementsPerThread = 16;

struct RowFacts {
  float log_sum_exp;
  float gradient;
  float share;  // of the probability: 1 without z-loss
  long long target;

  template <typename T>
  __device__ __forceinline__ T operator()(T logit, int column) const {
    const float probability = expf(convert_to<float>(logit) - log_sum_exp) * share;
    return convert_to<T>((column == target ? probability - 1.0F : probability) * gradient);
  }
};

template <typename T>
__device__ __forceinline__ void compute_slice(const RowFacts& facts, const T* from, T* to, int vocabulary) {
  constexpr int kWidth = AlignedRow<T>::kWidth;
  constexpr int kVectorsPerThread = kElementsPerThread / kWidth;
  const AlignedRow<T> parts(from, to, vocabulary);
  const int thread = static_cast<int>(threadIdx.x);
  if (blockIdx.y == 0) {
    for (int i = thread; i < parts.edges(); i += kBlockThreads) {
      const int column = parts.edge(i);
      to[column] = facts(from[column], column);
    }
  }
  const auto* vectors = reinterpret_cast<const Packet<T, kWidth>*>(from + parts.head);
  auto* results = reinterpret_cast<Packet<T, kWidth>*>(to + parts.head);
  const int first = static_cast<int>(blockIdx.y) * kBlockThreads * kVectorsPerThread + thread;
  Packet<T, kWidth> x[kVectorsPerThread];
#pragma unroll
  for (int u = 0; u < kVectorsPerThread; ++u) {
    const int i = first + u * kBlockThreads;
    if (i < parts.vectors) x[u] = vectors[i];
  }
#pragma unroll
  for (int u = 0; u < kVectorsPerThread; ++u) {
    const int i = first + u * kBlockThreads;
    if (i >= parts.vectors) continue;
    const int column = parts.head + kWidth * i;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x[u].values[k] = facts(x[u].values[k], column + k);
    results[i] = x[u];
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_CROSS_ENTROPY_BACKWARD(dtype, T)                                                                   \
  extern "C" __global__ void __launch_bounds__(256) cross_entropy_backward_slices_##dtype(                            \
      const float* __restrict__ gradient, const T* logits, const long long* __restrict__ targets,                     \
      const float* __restrict__ log_sum_exps, T* output, long long gradient_stride, float every_gradient,             \
      int vocabulary, long long logits_row, long long output_row, float z_loss) {                                     \
    const long long row = blockIdx.x;                                                                                 \
    const float log_sum_exp = log_sum_exps[row];                                                                      \
    const ridgepoint::cuda::RowFacts facts{log_sum_exp,                                                               \
                                           gradient != nullptr ? gradient[row * gradient_stride] : every_gradient,    \
                                           z_loss == 0.0F ? 1.0F : 1.0F + 2.0F * z_loss * log_sum_exp, targets[row]}; \
    ridgepoint::cuda::compute_slice<T>(facts, logits + row * logits_row, output + row * output_row, vocabulary);      \
  }

RIDGEPOINT_CROSS_ENTROPY_BACKWARD(fp32, float)
RIDGEPOINT_CROSS_ENTROPY_BACKWARD(bf16, __nv_bfloat16)
RIDGEPOINT_CROSS_ENTROPY_BACKWARD(fp16, __half)
