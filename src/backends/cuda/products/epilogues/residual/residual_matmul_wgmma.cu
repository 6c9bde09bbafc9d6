// A product whose epilogue is the residual sum and the norm of its rows, on Hopper; rows_beside.cuh has the pipeline.
#include "backends/cuda/products/epilogues/residual/rows_beside.cuh"

namespace ridgepoint::cuda {
namespace {

template <class T>
struct ResidualEpilogue : EpilogueOfRows<T> {
  using Element = typename T::Element;
  const ResidualMatmul& p;
  static constexpr int kLoadRegisters = 104;

  __device__ __forceinline__ void beside(const SharedTiles<T>& tiles, int warp) {
    const int n = p.product.n;
    const int product_bytes = n * static_cast<int>(sizeof(Element));
    const int x_bytes = n * static_cast<int>(sizeof(float));
    RowRing<T> ring(p.product, this->barriers, tiles, product_bytes + x_bytes);
    if (warp == 2) {
      const RowOperand others[] = {{p.x, p.x_row * static_cast<int>(sizeof(float)), x_bytes}};
      ring.load({p.products, p.product_row * static_cast<int>(sizeof(Element)), product_bytes}, others, p.counts);
      return;
    }
    const int first = (warp * kWarpLanes + static_cast<int>(threadIdx.x) % kWarpLanes) * 4;
    with_columns(first, n, [&](const auto& columns) { work(ring, columns, product_bytes); });
    if (first == 0) ring.clear(p.counts);
  }

  template <int kFours>
  __device__ __forceinline__ void work(RowRing<T>& ring, const ColumnsOfThread<kFours>& columns, int product_bytes) {
    float4 g[kFours];
#pragma unroll
    for (int i = 0; i < kFours; ++i) g[i] = __ldg(reinterpret_cast<const float4*>(p.g + columns[i]));
    ring.for_each([&](long long row, std::uint32_t slot, const typename RowRing<T>::Ring& at) {
      uint2 products[kFours];
      float4 sums[kFours];
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        products[i] = load_low_four(slot + columns[i] * sizeof(Element));
        sums[i] = load_four(slot + product_bytes + columns[i] * sizeof(float));
      }
      float squares = 0;
      float* const to_sum = p.sum + row * p.sum_row;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4 product = four_of<Element>(products[i]);
        float4& sum = sums[i];
        sum = {sum.x + product.x, sum.y + product.y, sum.z + product.z, sum.w + product.w};
        if (!columns.has(i)) continue;
        *reinterpret_cast<float4*>(to_sum + columns[i]) = sum;
        squares += (sum.x * sum.x + sum.y * sum.y) + (sum.z * sum.z + sum.w * sum.w);
      }
      ring.release(at);
      const float r = rsqrtf(ring.sum(squares, at) * p.inverse_columns + p.epsilon);
      if (p.reciprocal != nullptr && columns.first == 0) p.reciprocal[row] = r;
      Element* const to = static_cast<Element*>(p.normed) + row * p.normed_row;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const float4& sum = sums[i];
        if (columns.has(i)) {
          store_low_four(to + columns[i],
                         {sum.x * r * g[i].x, sum.y * r * g[i].y, sum.z * r * g[i].z, sum.w * r * g[i].w});
        }
      }
    });
  }
};

}  // namespace

// fused_residual_norm_<rows of a tile>x<columns>_<rows of a cluster>x<columns>_<KiB for rows>k_<dtype>
#define RIDGEPOINT_RESIDUAL(name, element, m, n, rows, columns, kib)                                               \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      fused_residual_norm_##name(const __grid_constant__ ResidualMatmul p) {                                       \
    __shared__ RowBarriers barriers;                                                                               \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::k, 1, 2, kBandRows,   \
                     kib * 1024>;                                                                                  \
    run<T>(p.product, ResidualEpilogue<T>{{barriers, {{p.product}, p.counts}}, p});                                   \
  }

RIDGEPOINT_RESIDUAL(128x128_2x1_32k_bf16, __nv_bfloat16, 128, 128, 2, 1, 32)
RIDGEPOINT_RESIDUAL(128x160_2x1_24k_bf16, __nv_bfloat16, 128, 160, 2, 1, 24)
RIDGEPOINT_RESIDUAL(128x160_2x1_56k_bf16, __nv_bfloat16, 128, 160, 2, 1, 56)
RIDGEPOINT_RESIDUAL(128x128_2x1_32k_fp16, __half, 128, 128, 2, 1, 32)
RIDGEPOINT_RESIDUAL(128x160_2x1_24k_fp16, __half, 128, 160, 2, 1, 24)
RIDGEPOINT_RESIDUAL(128x160_2x1_56k_fp16, __half, 128, 160, 2, 1, 56)

}  // namespace ridgepoint::cuda
