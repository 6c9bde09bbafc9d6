// The gradient of cross-entropy: output [rows, vocabulary] = (exp(logits - log_sum_exp) - onehot(target)) * gradient,
// fp32; the logits are read once. The gradient of row t is gradient[t * gradient_stride], or `every_gradient` if
// `gradient` is null.
// grid (rows, ceil(vocabulary / 4096)), block (256)
#include "backends/cuda/device/aligned_row.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kVectorsPerThread = 4;

struct RowFacts {
  float log_sum_exp;
  float gradient;
  long long target;

  __device__ __forceinline__ float operator()(float logit, int column) const {
    const float probability = expf(logit - log_sum_exp);
    return (column == target ? probability - 1.0F : probability) * gradient;
  }
};

}  // namespace
}  // namespace ridgepoint::cuda

extern "C" __global__ void __launch_bounds__(256)
    cross_entropy_backward_slices(const float* __restrict__ gradient, const float* __restrict__ logits,
                                  const long long* __restrict__ targets, const float* __restrict__ log_sum_exps,
                                  float* __restrict__ output, long long gradient_stride, float every_gradient,
                                  int vocabulary) {
  using namespace ridgepoint::cuda;
  const long long row = blockIdx.x;
  const float* from = logits + row * vocabulary;
  float* to = output + row * vocabulary;
  const AlignedRow parts(from, to, vocabulary);
  const RowFacts facts{log_sum_exps[row], gradient != nullptr ? gradient[row * gradient_stride] : every_gradient,
                       targets[row]};
  const int thread = static_cast<int>(threadIdx.x);
  if (blockIdx.y == 0) {
    for (int i = thread; i < parts.edges(); i += kBlockThreads) {
      const int column = parts.edge(i);
      to[column] = facts(from[column], column);
    }
  }
  const auto* vectors = reinterpret_cast<const float4*>(from + parts.head);
  auto* results = reinterpret_cast<float4*>(to + parts.head);
  const int first = static_cast<int>(blockIdx.y) * kBlockThreads * kVectorsPerThread + thread;
  float4 x[kVectorsPerThread];
#pragma unroll
  for (int u = 0; u < kVectorsPerThread; ++u) {
    const int i = first + u * kBlockThreads;
    if (i < parts.vectors) x[u] = vectors[i];
  }
#pragma unroll
  for (int u = 0; u < kVectorsPerThread; ++u) {
    const int i = first + u * kBlockThreads;
    const int column = parts.head + 4 * i;
    if (i < parts.vectors) {
      results[i] = make_float4(facts(x[u].x, column), facts(x[u].y, column + 1), facts(x[u].z, column + 2),
                               facts(x[u].w, column + 3));
    }
  }
}
