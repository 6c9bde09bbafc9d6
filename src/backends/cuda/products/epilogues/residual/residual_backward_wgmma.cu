// A product whose epilogue is the derivative of a norm and of the residual sum before it, on Hopper; rows_beside.cuh has
// the pipeline. The gradient of g is summed over the rows of each block, and over blocks by a second launch.
#include "backends/cuda/products/epilogues/residual/rows_beside.cuh"

namespace ridgepoint::cuda {
namespace {

template <class T>
struct ResidualBackwardEpilogue : EpilogueOfRows<T> {
  using Element = typename T::Element;
  const ResidualBackwardMatmul& p;
  static constexpr int kLoadRegisters = 120;

  __device__ __forceinline__ void beside(const SharedTiles<T>& tiles, int warp) {
    const int n = p.product.n;
    const int low_bytes = n * static_cast<int>(sizeof(Element));
    const int bytes = n * static_cast<int>(sizeof(float));
    RowRing<T> ring(p.product, this->barriers, tiles, low_bytes + 2 * bytes);
    if (warp == 2) {
      const RowOperand others[] = {{p.sum, p.sum_row * static_cast<int>(sizeof(float)), bytes},
                                   {p.residual, p.residual_row * static_cast<int>(sizeof(float)), bytes}};
      ring.load({p.d, p.d_row * static_cast<int>(sizeof(Element)), low_bytes}, others, p.counts);
      return;
    }
    const int first = (warp * kWarpLanes + static_cast<int>(threadIdx.x) % kWarpLanes) * 4;
    ring.keep_vector(p.g, first);
    with_columns(first, n, [&](const auto& columns) { work(ring, columns); });
    if (first == 0) ring.clear(p.counts);
  }

  template <int kFours>
  __device__ __forceinline__ void work(RowRing<T>& ring, const ColumnsOfThread<kFours>& columns) {
    const int n = p.product.n;
    const int slot_of_sum = n * static_cast<int>(sizeof(Element));
    const int slot_of_residual = slot_of_sum + n * static_cast<int>(sizeof(float));
    float4 of_g[kFours] = {};
    ring.for_each([&](long long row, std::uint32_t slot, const typename RowRing<T>::Ring& at) {
      const float r = __ldg(p.reciprocal + row);
      uint2 ds[kFours];
      float4 sums[kFours];
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        ds[i] = load_low_four(slot + columns[i] * sizeof(Element));
        sums[i] = load_four(slot + slot_of_sum + columns[i] * sizeof(float));
      }
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 d = four_of<Element>(ds[i]);
        const float4 g = ring.vector(columns[i]);
        const float4& sum = sums[i];
        const float more = (d.x * g.x * sum.x + d.y * g.y * sum.y) + (d.z * g.z * sum.z + d.w * g.w * sum.w);
        if (columns.has(i)) dot += more;
      }
      const float q = r * r * r * (ring.sum(dot, at) * p.inverse_columns);
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 d = four_of<Element>(load_low_four(slot + columns[i] * sizeof(Element)));
        const float4 g = ring.vector(columns[i]);
        const float4& sum = sums[i];
        float4 gradient = load_four(slot + slot_of_residual + columns[i] * sizeof(float));
        gradient.x += d.x * g.x * r - sum.x * q;
        gradient.y += d.y * g.y * r - sum.y * q;
        gradient.z += d.z * g.z * r - sum.z * q;
        gradient.w += d.w * g.w * r - sum.w * q;
        of_g[i].x += d.x * (sum.x * r);
        of_g[i].y += d.y * (sum.y * r);
        of_g[i].z += d.z * (sum.z * r);
        of_g[i].w += d.w * (sum.w * r);
        if (columns.has(i)) write_gradient(row, columns[i], gradient);
      }
      ring.release(at);
    });
    float* const parts = p.parts_of_g + static_cast<long long>(blockIdx.x) * n;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if (columns.has(i)) *reinterpret_cast<float4*>(parts + columns[i]) = of_g[i];
    }
  }

  __device__ __forceinline__ void write_gradient(long long row, int column, const float4& gradient) const {
    *reinterpret_cast<float4*>(p.gradient + row * p.gradient_row + column) = gradient;
    if (p.low_gradient == nullptr) return;
    store_low_four(static_cast<Element*>(p.low_gradient) + row * p.low_gradient_row + column, gradient);
  }
};

constexpr int kColumnsOfBlock = 32;
constexpr int kRowsOfBlock = 8;

}  // namespace

// of_g [n] = the sum of the rows of parts. grid (n / 32 rounded up), block (32, 8)
extern "C" __global__ void __launch_bounds__(kColumnsOfBlock* kRowsOfBlock)
    fused_residual_backward_columns(const __grid_constant__ ColumnSums p) {
  __shared__ float sums[kRowsOfBlock][kColumnsOfBlock];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int column = static_cast<int>(blockIdx.x * kColumnsOfBlock + threadIdx.x);
  float sum = 0;
  if (column < p.columns) {
#pragma unroll 4
    for (int row = static_cast<int>(threadIdx.y); row < p.rows; row += kRowsOfBlock) {
      sum += __ldcg(p.parts + static_cast<long long>(row) * p.columns + column);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.columns) return;
#pragma unroll
  for (int i = 1; i < kRowsOfBlock; ++i) sum += sums[i][threadIdx.x];
  p.sums[column] = sum;
}

// fused_residual_backward_<rows of a tile>x<columns>_<rows of a cluster>x<columns>_<KiB for rows>k_<dtype>
#define RIDGEPOINT_RESIDUAL_BACKWARD(name, element, m, n, rows, columns, kib)                                        \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1)   \
      fused_residual_backward_##name(const __grid_constant__ ResidualBackwardMatmul p) {                             \
    __shared__ RowBarriers barriers;                                                                                 \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::other, 1, 2, kBandRows, \
                     kib * 1024>;                                                                                    \
    run<T>(p.product, ResidualBackwardEpilogue<T>{{barriers, {{p.product}, p.counts}}, p});                            \
  }

RIDGEPOINT_RESIDUAL_BACKWARD(128x128_2x1_32k_bf16, __nv_bfloat16, 128, 128, 2, 1, 32)
RIDGEPOINT_RESIDUAL_BACKWARD(128x128_2x1_56k_bf16, __nv_bfloat16, 128, 128, 2, 1, 56)
RIDGEPOINT_RESIDUAL_BACKWARD(128x160_2x1_48k_bf16, __nv_bfloat16, 128, 160, 2, 1, 48)
RIDGEPOINT_RESIDUAL_BACKWARD(128x128_2x1_32k_fp16, __half, 128, 128, 2, 1, 32)
RIDGEPOINT_RESIDUAL_BACKWARD(128x128_2x1_56k_fp16, __half, 128, 128, 2, 1, 56)
RIDGEPOINT_RESIDUAL_BACKWARD(128x160_2x1_48k_fp16, __half, 128, 160, 2, 1, 48)

}  // namespace ridgepoint::cuda
