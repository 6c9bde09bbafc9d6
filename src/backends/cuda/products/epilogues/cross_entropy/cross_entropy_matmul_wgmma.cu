// Products whose epilogue is cross-entropy, on Hopper; low_matmul.cuh has the pipeline. The warpgroups take turns, so
// that one reduces the rows of its tile while the tensor cores multiply the other's.
//
//   logits = x w^T, rounded  ->  of each row of a tile: its largest element and the sum of exponentials
//   finish                   ->  of each row: log-sum-exp, and it minus the target's logit
//
// The logits are written once and not read; where nobody reads them they are not written. A target outside the
// vocabulary gives a NaN loss, a NaN or +infinity in a row NaN for both of its results, as kernels/cross_entropy has
// it.
#include <math_constants.h>

#include "backends/cuda/device/exponential.cuh"
#include "backends/cuda/products/epilogues/cross_entropy/parameters.h"
#include "backends/cuda/products/low_matmul/low_matmul.cuh"

namespace ridgepoint::cuda {
namespace {

// The maximum of nothing and of logits that are all -infinity, so that -infinity less the maximum is not NaN.
constexpr float kLowest = -3.402823466e38F;

// Over the four lanes that have a row.
template <class Combine>
__device__ __forceinline__ float over_row(float own, const Combine& combine) {
  own = combine(own, __shfl_xor_sync(kAllLanes, own, 1));
  return combine(own, __shfl_xor_sync(kAllLanes, own, 2));
}

template <class T>
struct CrossEntropyEpilogue {
  const CrossEntropyMatmul& p;
  int buffer = 0;

  using Element = typename T::Element;
  using Sums = float[T::kSums];

  __device__ __forceinline__ void prepare() {
    if (p.writes_logits != 0) prefetch(p.product.c);
  }

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int part, int group, int thread) {
    const int columns = p.product.n - at.column;  // of the vocabulary, from this tile on
#pragma unroll
    for (int chain = 0; chain < T::kChains; ++chain) {
      const int first_row = at.row + part * T::kRowsOfGroup + chain * 64;
      const int row = first_row + thread / kWarpLanes * 16 + thread % kWarpLanes / 4;
      if (columns < T::kColumns) leave_out(sums[chain], columns);
      pick_targets(sums[chain], row, at.column, columns);
      const float maxima[2] = {largest(sums[chain], 0), largest(sums[chain], 1)};
      float row_sums[2] = {};
#pragma unroll
      for (int panel = 0; panel < T::kPanels; ++panel) {
        end_panel(tiles, sums[chain], panel, maxima, row_sums, at.column, first_row, group, thread);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store(maxima[half], row_sums[half], at.column, row + 8 * half, thread % kWarpLanes);
      }
    }
  }

  // Columns beyond the vocabulary have no exponential. The thread has pairs of columns.
  static __device__ __forceinline__ void leave_out(Sums& sums, int columns) {
    columns -= static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) {
      if (i / 4 * 8 + i % 2 >= columns) sums[i] = -CUDART_INF_F;
    }
  }

  // Rounded, as the logits are. Rounding keeps the order, so it is the largest of the rounded ones too.
  static __device__ __forceinline__ float round(float x) { return static_cast<float>(static_cast<Element>(x)); }

  static __device__ __forceinline__ float largest(const Sums& sums, int half) {
    float own = -CUDART_INF_F;
#pragma unroll
    for (int i = 2 * half; i < T::kSums; i += 4) own = fmaxf(own, fmaxf(sums[i], sums[i + 1]));
    return fmaxf(round(over_row(own, [](float a, float b) { return fmaxf(a, b); })), kLowest);
  }

  // Writes a panel of logits and adds their exponentials.
  __device__ __forceinline__ void end_panel(const SharedTiles<T>& tiles, const Sums& sums, int panel,
                                            const float (&maxima)[2], float (&row_sums)[2], int tile_column, int row,
                                            int group, int thread) {
    const int lane = thread % kWarpLanes;
    const int line = thread / kWarpLanes * 16 + lane % 16;
    const std::uint32_t to = tiles.result(group, buffer);
    const bool writes = p.writes_logits != 0;
    if (writes) {
      buffer ^= 1;
      if (thread == 0) wait_for_stores<1>();
      meet(1 + group, kWarpgroupThreads);
    }
#pragma unroll
    for (int j = 0; j < T::kPanelColumns / 8; j += 2) {
      const int at = 4 * (panel * T::kPanelColumns / 8 + j);
      const unsigned pairs[4] = {pack<Element>(sums[at], sums[at + 1]), pack<Element>(sums[at + 2], sums[at + 3]),
                                 pack<Element>(sums[at + 4], sums[at + 5]), pack<Element>(sums[at + 6], sums[at + 7])};
      if (writes) store_matrices(to + in_panel<T::kLine>(line, (j + lane / 16) * 16), pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 x = unpack<Element>(pairs[i]);
        const float maximum = maxima[i % 2];
        row_sums[i % 2] += exp2_fast((x.x - maximum) * kLog2E) + exp2_fast((x.y - maximum) * kLog2E);
      }
    }
    if (!writes) return;
    publish_to_tensor_cores();
    meet(1 + group, kWarpgroupThreads);
    if (thread == 0) {
      store_box(p.product.c, to, tile_column + panel * T::kPanelColumns, row, 0, 0);
      end_stores();
    }
  }

  // The target of a row as a column of this tile; -1 where it is elsewhere.
  __device__ __forceinline__ int target_of(int row, int column, int columns) const {
    if (row >= p.product.m) return -1;
    const long long target = p.targets[row] - column;
    return target >= 0 && target < min(columns, T::kColumns) ? static_cast<int>(target) : -1;
  }

  __device__ __forceinline__ void pick_targets(const Sums& sums, int row, int column, int columns) const {
    const int targets[2] = {target_of(row, column, columns), target_of(row + 8, column, columns)};
    if (!__any_sync(kAllLanes, targets[0] >= 0 || targets[1] >= 0)) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int target = targets[half];
      if (target < 0 || target % 8 / 2 != static_cast<int>(threadIdx.x) % 4) continue;
      float logit = 0;
#pragma unroll
      for (int i = 0; i < T::kSums; i += 4) {
        if (target / 8 == i / 4) logit = target % 2 == 0 ? sums[i + 2 * half] : sums[i + 2 * half + 1];
      }
      p.target_logits[row + 8 * half] = round(logit);
    }
  }

  __device__ __forceinline__ void store(float maximum, float sum, int column, int row, int lane) const {
    sum = over_row(sum, [](float a, float b) { return a + b; });
    if (lane % 4 != 0 || row >= p.product.m) return;
    p.parts[static_cast<long long>(column / T::kColumns) * p.product.m + row] = {maximum, sum};
  }
};

__device__ __forceinline__ RowPart merge(const RowPart& own, const RowPart& other) {
  const float maximum = fmaxf(own.maximum, other.maximum);
  return {maximum, own.sum * exp2_fast((own.maximum - maximum) * kLog2E) +
                       other.sum * exp2_fast((other.maximum - maximum) * kLog2E)};
}

// The parts of a row are merged in an order that their number alone decides. A lane has a row; the warps of a block
// have a share of its parts each.
__device__ __forceinline__ void finish_rows(const CrossEntropyFinish& p) {
  constexpr int kRows = CrossEntropyFinish::kRows;
  constexpr int kWarps = CrossEntropyFinish::kThreads / kRows;
  constexpr int kInFlight = 8;
  __shared__ RowPart of_warps[kWarps][kRows];
  const int warp = static_cast<int>(threadIdx.x) / kRows;
  const int lane = static_cast<int>(threadIdx.x) % kRows;
  const int row = static_cast<int>(blockIdx.x) * kRows + lane;
  RowPart own{kLowest, 0.0F};
  for (int first = warp; row < p.rows && first < p.parts_of_row; first += kWarps * kInFlight) {
    RowPart loaded[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int part = first + i * kWarps;
      loaded[i] = part < p.parts_of_row ? p.parts[static_cast<long long>(part) * p.rows + row] : RowPart{kLowest, 0.0F};
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) own = merge(own, loaded[i]);
  }
  of_warps[warp][lane] = own;
  __syncthreads();
  if (warp != 0 || row >= p.rows) return;
  for (int other = 1; other < kWarps; ++other) own = merge(own, of_warps[other][lane]);
  const float log_sum_exp = own.maximum + logf(own.sum);
  const long long target = p.targets[row];
  const bool is_inside = target >= 0 && target < p.vocabulary;
  const float loss = is_inside ? log_sum_exp - p.target_logits[row] : CUDART_NAN_F;
  p.losses[row] = p.z_loss == 0.0F ? loss : loss + p.z_loss * log_sum_exp * log_sum_exp;
  if (p.log_sum_exps != nullptr) p.log_sum_exps[row] = log_sum_exp;
}

}  // namespace

// fused_cross_entropy_<rows of a tile>x<columns>_<rows of a cluster>x<columns>_<dtype>
#define RIDGEPOINT_CROSS_ENTROPY_MATMUL(name, element, m, n, rows, columns)                                        \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      fused_cross_entropy_##name(const __grid_constant__ CrossEntropyMatmul p) {                                   \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::k>;                   \
    run<T>(p.product, CrossEntropyEpilogue<T>{p});                                                                 \
  }
#define RIDGEPOINT_CROSS_ENTROPY_MATMULS(dtype, element)                        \
  RIDGEPOINT_CROSS_ENTROPY_MATMUL(128x128_2x1_##dtype, element, 128, 128, 2, 1) \
  RIDGEPOINT_CROSS_ENTROPY_MATMUL(128x160_2x1_##dtype, element, 128, 160, 2, 1) \
  RIDGEPOINT_CROSS_ENTROPY_MATMUL(128x192_1x1_##dtype, element, 128, 192, 1, 1) \
  RIDGEPOINT_CROSS_ENTROPY_MATMUL(128x192_2x1_##dtype, element, 128, 192, 2, 1)

RIDGEPOINT_CROSS_ENTROPY_MATMULS(bf16, __nv_bfloat16)
RIDGEPOINT_CROSS_ENTROPY_MATMULS(fp16, __half)

}  // namespace ridgepoint::cuda

// grid (ceil(rows / CrossEntropyFinish::kRows)), block (CrossEntropyFinish::kThreads)
extern "C" __global__ void __launch_bounds__(ridgepoint::cuda::CrossEntropyFinish::kThreads)
    fused_cross_entropy_finish(const __grid_constant__ ridgepoint::cuda::CrossEntropyFinish p) {
  ridgepoint::cuda::finish_rows(p);
}
