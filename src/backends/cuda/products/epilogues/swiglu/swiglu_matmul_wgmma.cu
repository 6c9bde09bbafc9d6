// Products whose epilogue is SwiGLU or its derivative, on Hopper; low_matmul.cuh has the pipeline. The warpgroups take
// turns, so that one computes the epilogue of its tile while the tensor cores multiply the other's.
//
// forward    gate, up = x w^T  ->  hidden = silu(gate) up
// backward   d = dy w          ->  d_gate = d up silu'(gate), d_up = d silu(gate)
#include "backends/cuda/device/exponential.cuh"
#include "backends/cuda/products/low_matmul/low_matmul.cuh"
#include "backends/cuda/products/epilogues/swiglu/parameters.h"

namespace ridgepoint::cuda {
namespace {

// 1 / (1 + e^-x).
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + exp2_fast(-kLog2E * x)); }

// Calls `place(address, at)` for the matrices of a panel that a warp stores together; `at` is the index of their first
// sum of the thread, for a panel that begins at column 0.
template <class T, class Place>
__device__ __forceinline__ void for_each_matrices(std::uint32_t panel, int thread, const Place& place) {
  const int lane = thread % 32;
  const int line = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < T::kPanelColumns / 8; j += 2) {
    place(panel + in_panel<T::kLine>(line, (j + lane / 16) * 16), 4 * j);
  }
}

template <class T>
struct SwigluEpilogue {
  const SwigluMatmul& p;
  int buffer = 0;
  static constexpr int kHalfSums = T::kSums / 2;

  __device__ __forceinline__ void prepare() {
    prefetch(p.product.c);
    prefetch(p.up);
    prefetch(p.hidden);
  }

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int /*part*/, int group, int thread) {
    // The panel of one result at a time: `value(sum)` gives it in pairs.
    const auto write = [&](const TensorMap& map, int column, int row, const auto& value) {
      const std::uint32_t panel = tiles.result(group, buffer);
      buffer ^= 1;
      if (thread == 0) wait_for_stores<1>();
      meet(1 + group, kWarpgroupThreads);
      for_each_matrices<T>(panel, thread, [&](std::uint32_t address, int at_sum) {
        const unsigned packed[4] = {value(at_sum), value(at_sum + 2), value(at_sum + 4), value(at_sum + 6)};
        store_matrices(address, packed);
      });
      publish_to_tensor_cores();
      meet(1 + group, kWarpgroupThreads);
      if (thread == 0) {
        store_box(map, panel, column, row, 0, 0);
        end_stores();
      }
    };
#pragma unroll
    for (int chain = 0; chain < T::kChains; ++chain) {
      const int row = at.row + chain * 64;
#pragma unroll
      for (int panel = 0; panel < T::kPanels / 2; ++panel) {
        const int column = at.column + panel * T::kPanelColumns;
        const int first = panel * T::kPanelColumns / 2;
        const auto half = [&](int i, int from) {
          return pack<typename T::Element>(sums[chain][from + first + i], sums[chain][from + first + i + 1]);
        };
        if (p.keeps_halves != 0) {
          write(p.product.c, column, row, [&](int i) { return half(i, 0); });
          write(p.up, column, row, [&](int i) { return half(i, kHalfSums); });
        }
        // Of the rounded halves, which backward reads.
        write(p.hidden, column, row, [&](int i) {
          const float2 gate = unpack<typename T::Element>(half(i, 0));
          const float2 up = unpack<typename T::Element>(half(i, kHalfSums));
          return pack<typename T::Element>(gate.x * sigmoid(gate.x) * up.x, gate.y * sigmoid(gate.y) * up.y);
        });
      }
    }
  }
};

// The panels of gate and up come to shared memory, where the gradients take their places.
template <class T>
struct SwigluBackwardEpilogue {
  const SwigluBackwardMatmul& p;
  SharedBarrier* loaded;  // two for each warpgroup
  unsigned parity = 0;

  __device__ __forceinline__ void prepare() {
    prefetch(p.product.c);
    prefetch(p.gate);
    prefetch(p.up);
    prefetch(p.up_gradient);
    for (int i = 0; i < 2 * kGroups; ++i) loaded[i].initialise(1);
  }

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int /*part*/, int group, int thread) {
    constexpr int kPanels = T::kChains * T::kPanels;
    const auto column = [&](int i) { return at.column + i % T::kPanels * T::kPanelColumns; };
    const auto row = [&](int i) { return at.row + i / T::kPanels * 64; };
    const auto load = [&](int i) {
      const int set = i % 2;
      wait_for_stores<0>();
      SharedBarrier& barrier = loaded[2 * group + set];
      arrive_and_expect(barrier, 2 * T::kResultPanelBytes);
      copy_box(tiles.result(group, 2 * set), p.gate, barrier, column(i), row(i), 0, 0);
      copy_box(tiles.result(group, 2 * set + 1), p.up, barrier, column(i), row(i), 0, 0);
    };
    if (thread == 0) load(0);
#pragma unroll
    for (int i = 0; i < kPanels; ++i) {
      const int set = i % 2;
      if (thread == 0 && i + 1 < kPanels) load(i + 1);
      loaded[2 * group + set].wait(parity >> set & 1);
      parity ^= 1U << set;
      const int first = i % T::kPanels * T::kPanelColumns / 2;
      change_panels(tiles.result(group, 2 * set), sums[i / T::kPanels], first, thread);
      publish_to_tensor_cores();
      meet(1 + group, kWarpgroupThreads);
      if (thread == 0) {
        store_box(p.product.c, tiles.result(group, 2 * set), column(i), row(i), 0, 0);
        store_box(p.up_gradient, tiles.result(group, 2 * set + 1), column(i), row(i), 0, 0);
        end_stores();
      }
    }
  }

  // gate and up, side by side in shared memory, become their gradients.
  static __device__ __forceinline__ void change_panels(std::uint32_t panels, const float (&sums)[T::kSums], int first,
                                                       int thread) {
    using Element = typename T::Element;
    for_each_matrices<T>(panels, thread, [&](std::uint32_t address, int at_sum) {
      unsigned gates[4], ups[4];
      load_matrices(gates, address);
      load_matrices(ups, address + T::kResultPanelBytes);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // As the product is without what follows it: rounded.
        const int at = first + at_sum + 2 * i;
        const float2 d = unpack<Element>(pack<Element>(sums[at], sums[at + 1]));
        const float2 gate = unpack<Element>(gates[i]);
        const float2 up = unpack<Element>(ups[i]);
        const float2 s = {sigmoid(gate.x), sigmoid(gate.y)};
        const float2 silu = {gate.x * s.x, gate.y * s.y};
        gates[i] = pack<Element>(d.x * up.x * (s.x + silu.x * (1 - s.x)), d.y * up.y * (s.y + silu.y * (1 - s.y)));
        ups[i] = pack<Element>(d.x * silu.x, d.y * silu.y);
      }
      store_matrices(address, gates);
      store_matrices(address + T::kResultPanelBytes, ups);
    });
  }
};

}  // namespace

// fused_swiglu_<forward|backward>_<rows of a tile>x<columns of b>_<rows of a cluster>x<columns>_<dtype>
#define RIDGEPOINT_SWIGLU(name, element, m, n, rows, columns)                                                      \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      fused_swiglu_forward_##name(const __grid_constant__ SwigluMatmul p) {                                        \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::k, 2, 2>;             \
    run<T>(p.product, SwigluEpilogue<T>{p});                                                                          \
  }                                                                                                                \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      fused_swiglu_backward_##name(const __grid_constant__ SwigluBackwardMatmul p) {                               \
    __shared__ SharedBarrier loaded[2 * kGroups];                                                                  \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::other, 1, 4>;         \
    run<T>(p.product, SwigluBackwardEpilogue<T>{p, loaded});                                                          \
  }

RIDGEPOINT_SWIGLU(128x128_1x1_bf16, __nv_bfloat16, 128, 128, 1, 1)
RIDGEPOINT_SWIGLU(128x128_2x1_bf16, __nv_bfloat16, 128, 128, 2, 1)
RIDGEPOINT_SWIGLU(128x128_1x1_fp16, __half, 128, 128, 1, 1)
RIDGEPOINT_SWIGLU(128x128_2x1_fp16, __half, 128, 128, 2, 1)

}  // namespace ridgepoint::cuda
