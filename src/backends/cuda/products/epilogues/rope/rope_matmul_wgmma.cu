// Products whose epilogue is rotary embedding, on Hopper: those that make q, k and v, of which q and k are rotated,
// perhaps after a bias is added; low_matmul.cuh has the pipeline.
//
//   sums -> shared memory, rounded, panel by panel -> bias and rotation there, eight neighbours a thread -> copy engine
//   -> c
//
// A panel is rotated in shared memory and not in the registers of the sums, because a thread then has neighbours, and
// reads cosines and sines in vectors. Values are rounded after each step, as by a kernel for each.
#include "backends/cuda/device/divide.cuh"
#include "backends/cuda/device/rotation.cuh"
#include "backends/cuda/products/low_matmul/low_matmul.cuh"
#include "backends/cuda/products/epilogues/rope/parameters.h"

namespace ridgepoint::cuda {
namespace {

template <class T>
struct RopeEpilogue {
  static constexpr int kChunks = T::kLine / kVectorBytes;  // of a line of a panel
  static constexpr int kLinesApart = kWarpgroupThreads / kChunks;
  static constexpr int kLines = 64 / kLinesApart;  // of a thread, with one chunk each

  const RopeMatmul& p;
  int buffer = 0;

  __device__ __forceinline__ void prepare() { prefetch(p.product.c); }

  __device__ __forceinline__ void operator()(const SharedTiles<T>& tiles, const Position& at,
                                             float (&sums)[T::kChains][T::kSums], int part, int group, int thread) {
    if (at.column >= p.columns) {
      if (p.bias == nullptr) return end_panels(tiles, at, sums, part, group, thread, [](auto...) {});
      return end_panels(tiles, at, sums, part, group, thread, [&](std::uint32_t panel, int, int number) {
        meet(1 + group, kWarpgroupThreads);
        change_lines(panel, at.column + number * T::kPanelColumns, thread, [](uint4&, int) {});
      });
    }
    const int row = at.row + part * T::kRowsOfGroup;
    float4 cosines[kLines], sines[kLines];
    load_tables(row, at.column, thread, cosines, sines);
    end_panels(tiles, at, sums, part, group, thread, [&](std::uint32_t panel, int chain, int number) {
      meet(1 + group, kWarpgroupThreads);
      const int column = at.column + number * T::kPanelColumns;
      const bool rotates = column + thread % kChunks * 8 < p.columns;
      if (rotates || p.bias != nullptr) {
        change_lines(panel, column, thread, [&](uint4& x, int i) {
          if (rotates) rotate_pairs<typename T::Element>(x, cosines[i], sines[i]);
        });
      }
      // Those of the next panel come while this one is stored.
      const bool is_last = number + 1 == T::kPanels;
      if (is_last ? chain + 1 == T::kChains : p.head.value == T::kPanelColumns) return;
      load_tables(row + (is_last ? chain + 1 : chain) * 64, is_last ? at.column : column + T::kPanelColumns, thread,
                  cosines, sines);
    });
  }

  // Writes panel after panel, each changed before by `change(panel, chain, number)`.
  template <class Change>
  __device__ __forceinline__ void end_panels(const SharedTiles<T>& tiles, const Position& at,
                                             const float (&sums)[T::kChains][T::kSums], int part, int group, int thread,
                                             const Change& change) {
#pragma unroll
    for (int chain = 0; chain < T::kChains; ++chain) {
#pragma unroll
      for (int panel = 0; panel < T::kPanels; ++panel) {
        const std::uint32_t to = tiles.result(group, buffer);
        buffer ^= 1;
        if (thread == 0) wait_for_stores<1>();
        meet(1 + group, kWarpgroupThreads);
        write_panel<T>(to, sums[chain], panel * T::kPanelColumns, thread);
        change(to, chain, panel);
        publish_to_tensor_cores();
        meet(1 + group, kWarpgroupThreads);
        if (thread == 0) {
          store_box(p.product.c, to, at.column + panel * T::kPanelColumns, at.row + part * T::kRowsOfGroup + chain * 64,
                    0, 0);
          end_stores();
        }
      }
    }
  }

  // Of the pairs of a thread's chunks.
  __device__ __forceinline__ void load_tables(int row, int column, int thread, float4 (&cosines)[kLines],
                                              float4 (&sines)[kLines]) const {
    const auto chunk = static_cast<unsigned>(column + thread % kChunks * 8);
    const unsigned pair = divide(chunk, p.head).remainder / 2;
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const auto line = static_cast<unsigned>(row + thread / kChunks + i * kLinesApart);
      const unsigned at = divide(line, p.sequence).remainder * (p.head.value / 2) + pair;
      cosines[i] = __ldg(reinterpret_cast<const float4*>(p.cosines + at));
      sines[i] = __ldg(reinterpret_cast<const float4*>(p.sines + at));
    }
  }

  // Adds the bias to the chunks of a thread, and changes chunk i by `change(x, i)`.
  template <class Change>
  __device__ __forceinline__ void change_lines(std::uint32_t panel, int column, int thread,
                                               const Change& change) const {
    const int chunk = column + thread % kChunks * 8;
    const bool adds = p.bias != nullptr && chunk < p.product.n;
    const uint4 bias =
        adds ? __ldg(reinterpret_cast<const uint4*>(static_cast<const typename T::Element*>(p.bias) + chunk)) : uint4{};
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const std::uint32_t at =
          panel + in_panel<T::kLine>(thread / kChunks + i * kLinesApart, thread % kChunks * kVectorBytes);
      uint4 x;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at));
      if (adds) add_pairs<typename T::Element>(x, bias);
      change(x, i);
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                   : "memory");
    }
  }
};

}  // namespace

// fused_rope_forward_<rows of a tile>x<columns>_<rows of a cluster>x<columns>_<dtype>
#define RIDGEPOINT_ROPE(name, element, m, n, rows, columns)                                                        \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      fused_rope_forward_##name(const __grid_constant__ RopeMatmul p) {                                            \
    using T = Tiling<element, element, true, m, n, rows, columns, Contiguous::k, Contiguous::k>;                   \
    run<T>(p.product, RopeEpilogue<T>{p});                                                                            \
  }

RIDGEPOINT_ROPE(128x128_1x1_bf16, __nv_bfloat16, 128, 128, 1, 1)
RIDGEPOINT_ROPE(128x128_2x1_bf16, __nv_bfloat16, 128, 128, 2, 1)
RIDGEPOINT_ROPE(128x128_1x1_fp16, __half, 128, 128, 1, 1)
RIDGEPOINT_ROPE(128x128_2x1_fp16, __half, 128, 128, 2, 1)

}  // namespace ridgepoint::cuda
