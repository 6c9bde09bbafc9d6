// The sum of squares of many tensors (src/ops/rules/reduce.cpp), of fp32, bf16 and fp16 elements. The result depends on
// the tensors alone: each sum has a fixed order.
//
// Two kernels, bound by memory: each element is read once. A thread sums 64 elements in four fp32 sums and a block adds
// those of its threads in pairs; the last kernel adds the sums of all blocks in fp64.
//   sum_of_squares_forward_chunks   grid (chunks of all tensors), block (256)
//   sum_of_squares_forward_finish   grid (1), block (1024)
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/tensor_table.cuh"
#include "backends/cuda/kernels/sum_of_squares/parameters.h"

namespace ridgepoint::cuda {
namespace {

// The sum of the values of all threads, in thread 0.
template <int kThreads, typename T>
__device__ __forceinline__ T block_sum(T value) {
  constexpr int kWarps = kThreads / kWarpLanes;
  __shared__ T of_warps[kWarps];
#pragma unroll
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (threadIdx.x % kWarpLanes == 0) of_warps[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  if (threadIdx.x >= kWarpLanes) return value;
  value = threadIdx.x < kWarps ? of_warps[threadIdx.x] : T(0);
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

template <typename T>
__device__ __forceinline__ float sum_chunk(const SquaresTable& table, int tensor, long long offset) {
  constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
  constexpr int kVectorsPerThread = SquaresTable::kChunkElements / (SquaresTable::kThreads * kWidth);
  const T* const chunk = static_cast<const T*>(table.operands[tensor]) + offset;
  const long long left = table.elements[tensor] - offset;
  const int thread = static_cast<int>(threadIdx.x);
  float parts[4] = {};
  if (left >= SquaresTable::kChunkElements && are_vector_aligned(chunk)) {
    const auto* const vectors = reinterpret_cast<const uint4*>(chunk);
#pragma unroll 8
    for (int i = 0; i < kVectorsPerThread; ++i) {
      const uint4 bits = vectors[i * SquaresTable::kThreads + thread];
      const auto x = *reinterpret_cast<const Packet<T, kWidth>*>(&bits);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const auto element = convert_to<float>(x.values[k]);
        parts[k % 4] = fmaf(element, element, parts[k % 4]);
      }
    }
  } else {
    const int elements = static_cast<int>(min(left, 0LL + SquaresTable::kChunkElements));
    for (int at = thread; at < elements; at += SquaresTable::kThreads) {
      const auto element = convert_to<float>(chunk[at]);
      parts[0] = fmaf(element, element, parts[0]);
    }
  }
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

__device__ __forceinline__ float sum_chunk_of_type(const SquaresTable& table, int tensor, long long offset) {
  switch (table.types[tensor]) {
    case SquaresElement::bf16: return sum_chunk<__nv_bfloat16>(table, tensor, offset);
    case SquaresElement::fp16: return sum_chunk<__half>(table, tensor, offset);
    default: return sum_chunk<float>(table, tensor, offset);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

extern "C" __global__ void __launch_bounds__(256)
    sum_of_squares_forward_chunks(const __grid_constant__ ridgepoint::cuda::SquaresTable table, float* sums) {
  using namespace ridgepoint::cuda;
  const int tensor = find_tensor(table, blockIdx.x);
  const long long offset =
      static_cast<long long>(blockIdx.x - table.first_chunk[tensor]) * SquaresTable::kChunkElements;
  const float sum = block_sum<SquaresTable::kThreads>(sum_chunk_of_type(table, tensor, offset));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(1024)
    sum_of_squares_forward_finish(const float* sums, std::int32_t count, float* output) {
  using namespace ridgepoint::cuda;
  double own = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += SquaresTable::kFinishThreads) own += sums[i];
  own = block_sum<SquaresTable::kFinishThreads>(own);
  if (threadIdx.x == 0) *output = static_cast<float>(own);
}
