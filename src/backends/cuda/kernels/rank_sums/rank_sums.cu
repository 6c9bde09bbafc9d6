// Sums over the ranks of what each has sent, in the order of ranks, in fp32: every rank gets the same bits, rounded
// once. Bound by memory: each part is read once, and the sum written once. And copies of the own parts alone, of any
// type. grid (blocks for each sum, sums), block (RankSums::kThreads)
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/kernels/rank_sums/parameters.h"

namespace ridgepoint::cuda {
namespace {

template <typename T>
__device__ __forceinline__ void add_parts(const RankSums& sums) {
  constexpr int kCount = kVectorBytes / sizeof(T);
  using Vector = Packet<T, kCount>;
  const RankSums::Sum& one = sums.sums[blockIdx.y];
  const auto* parts = static_cast<const Vector*>(one.parts);
  const auto* own_part = static_cast<const Vector*>(one.own_part);
  auto* out = static_cast<Vector*>(one.sum);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < one.vectors; i += step) {
    float total[kCount] = {};
    for (int rank = 0; rank < sums.ranks; ++rank) {
      const Vector part = rank == sums.rank ? own_part[i] : parts[rank * one.vectors + i];
#pragma unroll
      for (int j = 0; j < kCount; ++j) total[j] += static_cast<float>(part.values[j]);
    }
    Vector sum;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum.values[j] = convert_to<T>(total[j]);
    out[i] = sum;
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_RANK_SUMS(dtype, T)                                               \
  extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::RankSums::kThreads) \
      rank_sums_##dtype(const __grid_constant__ ridgepoint::cuda::RankSums sums) {   \
    ridgepoint::cuda::add_parts<T>(sums);                                            \
  }

extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::RankSums::kThreads)
    copy_own_parts(const __grid_constant__ ridgepoint::cuda::RankSums copies) {
  const ridgepoint::cuda::RankSums::Sum& one = copies.sums[blockIdx.y];
  const auto* from = static_cast<const uint4*>(one.own_part);
  auto* to = static_cast<uint4*>(one.sum);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < one.vectors; i += step)
    to[i] = from[i];
}

RIDGEPOINT_RANK_SUMS(fp32, float)
RIDGEPOINT_RANK_SUMS(bf16, __nv_bfloat16)
RIDGEPOINT_RANK_SUMS(fp16, __half)
