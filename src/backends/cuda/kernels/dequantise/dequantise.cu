// Writes the elements of one packed matrix (core/packed/packed_matrix.h), rounded to bf16, fp16 or fp32. Bound by
// memory: a code is read once, 8 elements are one write of 16 bytes (fp32: two).
//   dequantise_forward_nf4_<dtype>, dequantise_forward_int8_<dtype>   grid (ceil(elements / 8192)), block (256)
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/kernels/dequantise/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kGroup = PackedGrid::kGroup;
constexpr int kNf4Block = 64;
constexpr int kNf4BlocksOfBlocks = 256;

__device__ __forceinline__ float read_float(const unsigned char* packed, long long offset, int index) {
  return reinterpret_cast<const float*>(packed + offset)[index];
}

// Groups of 8 elements of one block of 64.
struct Nf4Reader {
  const PackedGrid& grid;
  const Nf4Levels& levels;
  const unsigned char* packed;
  const float* elements;  // the levels in shared memory, where lanes read different ones at once

  __device__ __forceinline__ float magnitude_of(int block) const {
    if (grid.outer_scales == 0) return read_float(packed, grid.scales, block);
    const float outer = read_float(packed, grid.outer_scales, block / kNf4BlocksOfBlocks);
    const float scaled = __fmul_rn(levels.magnitudes[packed[grid.scales + block]], outer);
    return __fadd_rn(scaled, read_float(packed, grid.mean, 0));
  }

  __device__ __forceinline__ void read(int first, float (&values)[kGroup]) const {
    const float magnitude = magnitude_of(first / kNf4Block);
    const unsigned codes = reinterpret_cast<const unsigned*>(packed)[first / kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      // The first element of a pair has the upper half of its byte.
      const unsigned code = codes >> (i / 2 * 8 + (i % 2 == 0 ? 4 : 0)) & 15U;
      values[i] = __fmul_rn(elements[code], magnitude);
    }
  }
};

struct Int8Reader {
  const PackedGrid& grid;
  const unsigned char* packed;

  __device__ __forceinline__ void read(int first, float (&values)[kGroup]) const {
    constexpr float kStep = 1.0F / 127.0F;
    const auto codes = reinterpret_cast<const Packet<signed char, kGroup>*>(packed)[first / kGroup];
    int row = first / grid.columns;
    int column = first - row * grid.columns;
    float largest = read_float(packed, grid.scales, row);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (column == grid.columns && first + i < grid.elements) {
        column = 0;
        largest = read_float(packed, grid.scales, ++row);
      }
      values[i] = __fmul_rn(__fmul_rn(static_cast<float>(codes.values[i]), largest), kStep);
      ++column;
    }
  }
};

// Where the result has an element of the packed matrix.
__device__ __forceinline__ int place_of(const PackedGrid& grid, int element) {
  if (grid.rotated == 0) return element;
  const int row = element / grid.columns;
  const int within = row % grid.head_size - grid.kept;
  if (within < 0 || within >= grid.rotated) return element;
  const int half = grid.rotated / 2;
  const int ours = within < half ? 2 * within : 2 * (within - half) + 1;
  return element + (ours - within) * grid.columns;
}

template <typename T, typename Reader>
__device__ __forceinline__ void write_all(const PackedGrid& grid, const Reader& reader, T* result) {
  int first = (static_cast<int>(blockIdx.x) * PackedGrid::kElementsPerBlock) + static_cast<int>(threadIdx.x) * kGroup;
#pragma unroll
  for (int i = 0; i < PackedGrid::kGroupsPerThread; ++i, first += PackedGrid::kThreads * kGroup) {
    if (first >= grid.elements) return;
    float values[kGroup];
    reader.read(first, values);
    constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
    const bool is_in_row = grid.rotated == 0 || grid.columns % kGroup == 0;
    if (first + kGroup <= grid.elements && is_in_row && are_vector_aligned(result)) {
      T* const group = result + place_of(grid, first);
#pragma unroll
      for (int part = 0; part < kGroup / kWidth; ++part) {
        Packet<T, kWidth> packet;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) packet.values[k] = convert_to<T>(values[part * kWidth + k]);
        reinterpret_cast<Packet<T, kWidth>*>(group)[part] = packet;
      }
    } else {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (first + k < grid.elements) result[place_of(grid, first + k)] = convert_to<T>(values[k]);
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

#define RIDGEPOINT_DEQUANTISE(name, T)                                                                                 \
  extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::PackedGrid::kThreads) dequantise_forward_nf4_##name(  \
      const __grid_constant__ ridgepoint::cuda::PackedGrid grid,                                                       \
      const __grid_constant__ ridgepoint::cuda::Nf4Levels levels, const unsigned char* packed, T* result) {            \
    __shared__ float elements[16];                                                                                     \
    if (threadIdx.x < 16) elements[threadIdx.x] = levels.elements[threadIdx.x];                                        \
    __syncthreads();                                                                                                   \
    ridgepoint::cuda::write_all(grid, ridgepoint::cuda::Nf4Reader{grid, levels, packed, elements}, result);            \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::PackedGrid::kThreads) dequantise_forward_int8_##name( \
      const __grid_constant__ ridgepoint::cuda::PackedGrid grid, const unsigned char* packed, T* result) {             \
    ridgepoint::cuda::write_all(grid, ridgepoint::cuda::Int8Reader{grid, packed}, result);                             \
  }

RIDGEPOINT_DEQUANTISE(bf16, __nv_bfloat16)
RIDGEPOINT_DEQUANTISE(fp16, __half)
RIDGEPOINT_DEQUANTISE(fp32, float)
