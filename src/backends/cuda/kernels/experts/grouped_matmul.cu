// Products of the rows of each expert with its matrix, and the sums over the rows of each expert. The host does not
// know how many rows an expert has: it launches a block for every tile that there could be, and each finds its expert.
//
// bf16 and fp16 are multiplied on tensor cores with sums in fp32, fp32 and fp64 by FMA. Every element of the result is
// one sum in the order of the inner index, so results are bit for bit reproducible.
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"
#include "backends/cuda/kernels/experts/parameters.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kTile = kGroupedTile;
constexpr int kThreads = 128;

using Form = GroupedForm;

// A matrix whose element (i, k) is at i * outer_stride + k * inner_stride; one of the strides is 1.
template <typename T>
struct Operand {
  const T* first;
  long long outer_stride, inner_stride;
  int outer, inner;  // sizes
};

// The tile of the result of a block, and where it is written.
template <typename T>
struct Product {
  Operand<T> a, b;  // c (i, j) is the sum over k of a (i, k) b (j, k)
  T* c;
  long long leading;
  int row, column;  // of the tile
};

__device__ __forceinline__ int offset_of(const GroupedMatmul& p, int expert) {
  const long long offset = p.offsets[expert];
  return static_cast<int>(offset < 0 ? 0 : offset > p.rows ? p.rows : offset);
}

__device__ __forceinline__ int tiles_of(int size) { return (size + kTile - 1) / kTile; }

// The rows after the last expert's are 0: blocks without a tile clear them.
template <typename T>
__device__ __forceinline__ void clear_rows(const GroupedMatmul& p, int tile) {
  const int first = offset_of(p, p.experts) + tile * kTile;
  const int column = static_cast<int>(blockIdx.x) * kTile;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
    const int row = first + i / kTile;
    const int at = column + i % kTile;
    if (row < p.rows && at < p.columns)
      static_cast<T*>(p.c)[static_cast<long long>(row) * p.columns + at] = convert_to<T>(Accumulator<T>{0});
  }
}

// The product of this block; false if it has none.
template <typename T, Form kForm>
__device__ __forceinline__ bool find_product(const GroupedMatmul& p, Product<T>& found) {
  const T* a = static_cast<const T*>(p.a);
  const T* b = static_cast<const T*>(p.b);
  found.column = static_cast<int>(blockIdx.x) * kTile;
  found.leading = p.columns;
  if constexpr (kForm == Form::weights) {
    const int expert = static_cast<int>(blockIdx.z);
    const int begin = offset_of(p, expert);
    const int count = max(offset_of(p, expert + 1) - begin, 0);
    found.a = {a + static_cast<long long>(begin) * p.inner, 1, p.inner, p.inner, count};
    found.b = {b + static_cast<long long>(begin) * p.columns, 1, p.columns, p.columns, count};
    found.c = static_cast<T*>(p.c) + static_cast<long long>(expert) * p.inner * p.columns;
    found.row = static_cast<int>(blockIdx.y) * kTile;
    return true;
  } else {
    int tile = static_cast<int>(blockIdx.y);
    for (int expert = 0; expert < p.experts; ++expert) {
      const int begin = offset_of(p, expert);
      const int count = max(offset_of(p, expert + 1) - begin, 0);
      if (tile >= tiles_of(count)) {
        tile -= tiles_of(count);
        continue;
      }
      const T* matrix = b + static_cast<long long>(expert) * p.inner * p.columns;
      found.a = {a + static_cast<long long>(begin) * p.inner, p.inner, 1, count, p.inner};
      found.b = kForm == Form::transposed ? Operand<T>{matrix, p.inner, 1, p.columns, p.inner}
                                          : Operand<T>{matrix, 1, p.columns, p.columns, p.inner};
      found.c = static_cast<T*>(p.c) + static_cast<long long>(begin) * p.columns;
      found.row = tile * kTile;
      return true;
    }
    clear_rows<T>(p, tile);
    return false;
  }
}

// Copies elements (first_outer + i, first_inner + k) to tile[i][k], 0 beyond the matrix. Threads follow the contiguous
// dimension.
template <typename T, int kInner, int kPitch>
__device__ __forceinline__ void load_tile(T (&tile)[kTile][kPitch], const Operand<T>& from, int first_outer,
                                          int first_inner) {
  const bool inner_is_contiguous = from.inner_stride == 1;
#pragma unroll 4
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kInner; at += kThreads) {
    const int i = inner_is_contiguous ? at / kInner : at % kTile;
    const int k = inner_is_contiguous ? at % kInner : at / kTile;
    const int outer = first_outer + i;
    const int inner = first_inner + k;
    const bool inside = outer < from.outer && inner < from.inner;
    tile[i][k] =
        inside ? from.first[outer * from.outer_stride + inner * from.inner_stride] : convert_to<T>(Accumulator<T>{0});
  }
}

template <typename T>
__device__ __forceinline__ void store(const Product<T>& product, int row, int column, Accumulator<T> value) {
  row += product.row;
  column += product.column;
  if (row < product.a.outer && column < product.b.outer)
    product.c[row * product.leading + column] = convert_to<T>(value);
}

// Each of four warps computes a quarter of the tile, 32 x 32.
template <typename T>
__device__ __forceinline__ void multiply_on_tensor_cores(const Product<T>& product) {
  constexpr int kStep = 32;
  constexpr int kPitch = kStep + 8;  // rows begin in different banks
  alignas(16) __shared__ T a[kTile][kPitch];
  alignas(16) __shared__ T b[kTile][kPitch];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int g = static_cast<int>(threadIdx.x) % kWarpLanes / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int row = warp / 2 * 32;
  const int column = warp % 2 * 32;
  float sums[2][4][4] = {};
  const auto pair = [](const T* at) { return *reinterpret_cast<const unsigned*>(at); };
  for (int step = 0; step < product.a.inner; step += kStep) {
    load_tile<T, kStep>(a, product.a, product.row, step);
    load_tile<T, kStep>(b, product.b, product.column, step);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      unsigned left[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const T* upper = &a[row + i * 16 + g][k + 2 * t];
        const T* lower = &a[row + i * 16 + g + 8][k + 2 * t];
        left[i][0] = pair(upper);
        left[i][1] = pair(lower);
        left[i][2] = pair(upper + 8);
        left[i][3] = pair(lower + 8);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const T* right = &b[column + j * 8 + g][k + 2 * t];
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply<T>(sums[i][j], left[i], pair(right), pair(right + 8));
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        store(product, row + i * 16 + g + e / 2 * 8, column + j * 8 + 2 * t + e % 2, sums[i][j][e]);
    }
  }
}

// A thread computes 4 x 8 elements, 16 rows and 8 columns apart.
template <typename T>
__device__ __forceinline__ void multiply_by_fma(const Product<T>& product) {
  constexpr int kStep = 16;
  __shared__ T a[kTile][kStep + 1];
  __shared__ T b[kTile][kStep + 1];
  const int row = static_cast<int>(threadIdx.x) / 8;
  const int column = static_cast<int>(threadIdx.x) % 8;
  T sums[4][8] = {};
  for (int step = 0; step < product.a.inner; step += kStep) {
    load_tile<T, kStep>(a, product.a, product.row, step);
    load_tile<T, kStep>(b, product.b, product.column, step);
    __syncthreads();
    for (int k = 0; k < kStep; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] = fma(a[row + 16 * i][k], b[column + 8 * j][k], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) store(product, row + 16 * i, column + 8 * j, sums[i][j]);
  }
}

template <typename T, Form kForm>
__device__ __forceinline__ void multiply_groups(const GroupedMatmul& p) {
  Product<T> product;
  if (!find_product<T, kForm>(p, product)) return;
  if constexpr (sizeof(T) == 2) {
    multiply_on_tensor_cores(product);
  } else {
    multiply_by_fma(product);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda

// grid (ceil(columns / 64), tiles of rows, experts for weights), block (128). There are at most
// ceil(rows / 64) + experts tiles of rows; for weights they are ceil(inner / 64).
#define RIDGEPOINT_GROUPED_MATMUL(name, T, form)                                                    \
  extern "C" __global__ void __launch_bounds__(128) name(const ridgepoint::cuda::GroupedMatmul p) { \
    ridgepoint::cuda::multiply_groups<T, ridgepoint::cuda::Form::form>(p);                          \
  }
#define RIDGEPOINT_GROUPED_MATMULS(dtype, T)                                          \
  RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_plain_##dtype, T, plain)           \
  RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_forward_transposed_##dtype, T, transposed) \
  RIDGEPOINT_GROUPED_MATMUL(grouped_matmul_weights_forward_tiles_##dtype, T, weights)

RIDGEPOINT_GROUPED_MATMULS(fp64, double)
RIDGEPOINT_GROUPED_MATMULS(fp32, float)
RIDGEPOINT_GROUPED_MATMULS(bf16, __nv_bfloat16)
RIDGEPOINT_GROUPED_MATMULS(fp16, __half)
